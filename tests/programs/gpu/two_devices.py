"""Two devices in one process, each with a budget of its own: what each is said to have, what each
gives, and copies from one to the other. Each case is a line "ok" or "not ok".
"""
import argparse
import ctypes
import os
import uuid

MIB = 1 << 20
BITE = 256 * MIB
OUT_OF_MEMORY = 2


class Sizes(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Device:
    def __init__(self, cuda, nvml, ordinal, total):
        self.cuda, self.nvml, self.ordinal, self.total = cuda, nvml, ordinal, total
        self.context = ctypes.c_void_p()
        must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), ordinal), "retain")
        self.blocks = []

    def enter(self):
        must(self.cuda.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def totals(self):
        left, whole, size = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        bus, handle, told = ctypes.create_string_buffer(32), ctypes.c_void_p(), Sizes()
        self.enter()
        must(self.cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(whole)), "cuMemGetInfo")
        must(self.cuda.cuDeviceTotalMem_v2(ctypes.byref(size), self.ordinal), "cuDeviceTotalMem")
        must(self.cuda.cuDeviceGetPCIBusId(bus, 32, self.ordinal), "cuDeviceGetPCIBusId")
        must(self.nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)), "by bus")
        must(self.nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(told)), "by NVML")
        return {whole.value, size.value, told.total}

    def fill(self):
        """Until it is refused; answers what is wrong."""
        self.enter()
        while True:
            block = ctypes.c_ulonglong()
            code = self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(BITE))
            if code:
                break
            self.blocks.append(block)
        held = len(self.blocks) * BITE
        if code != OUT_OF_MEMORY:
            return f"device {self.ordinal} refuses with {code}"
        # A context and the reserve lie within the limit as well.
        if held > self.total or held + 1024 * MIB + BITE < self.total:
            return f"device {self.ordinal} gives {held // MIB} of {self.total // MIB} MiB"
        return ""


def must(code, call):
    if code != 0:
        raise SystemExit(f"{call} answers {code}")


def judge(name, wrong):
    print(f"not ok {name}: {wrong}" if wrong else f"ok {name}", flush=True)


def copied(cuda, one, other):
    """Through both devices and back."""
    sent = os.urandom(MIB)
    back = ctypes.create_string_buffer(MIB)
    size = ctypes.c_size_t(MIB)
    one.enter()
    must(cuda.cuMemcpyHtoD_v2(one.blocks[0], sent, size), "cuMemcpyHtoD")
    must(cuda.cuMemcpyPeer(other.blocks[0], other.context, one.blocks[0], one.context, size),
         "cuMemcpyPeer")
    other.enter()
    must(cuda.cuMemcpyDtoH_v2(back, other.blocks[0], size), "cuMemcpyDtoH")
    return "" if back.raw == sent else "other bytes came back"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("totals", type=int, nargs="*", help="MiB that each must have")
    parser.add_argument("--print-uuid", action="store_true", help="of the first, and nothing else")
    parser.add_argument("--no-copies", action="store_true", help="none from one to the other")
    arguments = parser.parse_args()
    cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
    must(cuda.cuInit(0), "cuInit")
    if arguments.print_uuid:
        found = ctypes.create_string_buffer(16)
        must(cuda.cuDeviceGetUuid(found, 0), "cuDeviceGetUuid")
        print(f"GPU-{uuid.UUID(bytes=found.raw)}")
        return
    must(nvml.nvmlInit_v2(), "nvmlInit_v2")
    devices = [Device(cuda, nvml, i, total * MIB) for i, total in enumerate(arguments.totals)]
    told = [device.totals() for device in devices]
    judge("totals", "" if told == [{device.total} for device in devices] else f"they are {told}")
    judge("fills", devices[0].fill() or devices[1].fill())
    if not arguments.no_copies:
        judge("peer-copies", copied(cuda, *devices) or copied(cuda, *reversed(devices)))
    one = devices[0].blocks.pop()
    devices[1].enter()
    must(cuda.cuMemFree_v2(one), "cuMemFree with the other's context current")
    wrong = devices[1].fill()
    judge("freed-beside", wrong or devices[0].fill())


main()
