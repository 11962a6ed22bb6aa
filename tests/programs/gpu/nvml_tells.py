"""What NVML tells a program of its card: by the library itself, as every binding reaches it, by
pynvml and by nvidia-smi, where these are there. Each case is a line "ok" or "not ok".
"""
import argparse
import ctypes
import importlib.util
import shutil
import subprocess

MIB = 1 << 20


class First(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Second(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong),
                ("reserved", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


def judge(name, wrong):
    print(f"not ok {name}: {wrong}" if wrong else f"ok {name}", flush=True)


def must(code, call):
    if code != 0:
        raise SystemExit(f"{call} answers {code}")


def sizes(nvml, device):
    """The second form's, and what is wrong with the two."""
    first, second = First(), Second(version=ctypes.sizeof(Second) | 2 << 24)
    must(nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(first)), "nvmlDeviceGetMemoryInfo")
    must(nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(second)),
         "nvmlDeviceGetMemoryInfo_v2")
    wrong = ""
    if first.total != second.total or first.used != first.total - first.free:
        wrong = f"the first form says {first.total}, {first.free} and {first.used}"
    elif second.reserved or second.used != second.total - second.free:
        wrong = f"of {second.total} {second.reserved} are reserved and {second.used} used"
    return second, wrong


def before_cuda(nvml, total):
    count = ctypes.c_uint()
    must(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount_v2")
    wrong = ""
    for index in range(count.value):
        device = ctypes.c_void_p()
        must(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)), "by index")
        told, why = sizes(nvml, device)
        wrong = wrong or why
        if told.total != total:
            wrong = f"card {index} seems to have {told.total} bytes, not {total}"
    judge("before-cuda", wrong)


def beside_cuda(nvml, total):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, block = ctypes.c_void_p(), ctypes.c_ulonglong()
    bus, device = ctypes.create_string_buffer(32), ctypes.c_void_p()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    must(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(100 * MIB)), "cuMemAlloc")
    must(cuda.cuDeviceGetPCIBusId(bus, 32, 0), "cuDeviceGetPCIBusId")
    must(nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(device)), "by bus")
    left, whole, size = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    must(cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(whole)), "cuMemGetInfo")
    must(cuda.cuDeviceTotalMem_v2(ctypes.byref(size), 0), "cuDeviceTotalMem")
    told, wrong = sizes(nvml, device)
    if {told.total, whole.value, size.value} != {total}:
        wrong = f"{told.total}, {whole.value} and {size.value} bytes, not {total}"
    elif told.free != left.value:
        wrong = f"NVML says {told.free} bytes are free, CUDA {left.value}"
    judge("beside-cuda", wrong)


def by_pynvml(total):
    import pynvml
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    told = [pynvml.nvmlDeviceGetMemoryInfo(device).total]
    if hasattr(pynvml, "nvmlMemory_v2"):
        told.append(pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).total)
    judge("pynvml", "" if set(told) == {total} else f"{told} bytes, not {total}")


def by_nvidia_smi(total):
    run = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, timeout=60, check=False)
    told = set(run.stdout.split())
    judge("nvidia-smi", "" if told == {str(total // MIB)} else
          f"{run.stdout.strip()} MiB, not {total // MIB} {run.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, required=True, help="MiB that each card must have")
    total = parser.parse_args().total * MIB
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    must(nvml.nvmlInit_v2(), "nvmlInit_v2")
    before_cuda(nvml, total)
    beside_cuda(nvml, total)
    for name, is_there, tells in (("pynvml", importlib.util.find_spec("pynvml"), by_pynvml),
                                  ("nvidia-smi", shutil.which("nvidia-smi"), by_nvidia_smi)):
        if is_there:
            tells(total)
        else:
            print(f"skip {name}: not there", flush=True)


main()
