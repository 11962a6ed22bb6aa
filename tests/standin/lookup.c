/* cuGetProcAddress in both ABIs, and the tables nobody outside the driver knows. */
#include "names.h"
#include "sim.h"

/* Arguments that are no good change nothing. A name that the version lacks is no error: its
 * address is NULL. (A driver of the time of the first form says otherwise, see there.) A
 * version newer than the driver's own is refused, already the next minor one. */
static CUresult look_up(const char *symbol, void **address, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const struct sim_name *best = NULL;
    bool known = false;
    if (!symbol || !address || flags > 3 || version > sim_driver_version)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < sim_name_count; i++) {
        const struct sim_name *name = &sim_names[i];
        if (strcmp(name->base, symbol) != 0 || name->flags == SIM_FLAGS_NONE ||
            name->since > sim_driver_version)
            continue;
        known = true;
        if (name->flags == (per_thread ? SIM_FLAGS_DEFAULT : SIM_FLAGS_THREAD) ||
            name->since > version)
            continue;
        if (!best || name->since > best->since)
            best = name;
    }
    *address = best ? best->address : NULL;
    if (status)
        *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    SIM_ENTER_ANY_TIME(cuGetProcAddress, W(symbol), W(pfn), W(cudaVersion), W(flags));
    void *address;
    CUresult code;
    if (!pfn)
        return CUDA_ERROR_INVALID_VALUE;
    code = look_up(symbol, &address, cudaVersion, flags, NULL);
    if (code)
        return code;
    /* It has no status to tell with; on a failure the caller's pointer stays as it is. */
    if (!address)
        return CUDA_ERROR_NOT_FOUND;
    *pfn = address;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    SIM_ENTER_ANY_TIME(cuGetProcAddress_v2, W(symbol), W(pfn), W(cudaVersion), W(flags),
                       W(symbolStatus));
    return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    SIM_ENTER_ANY_TIME(cuGetExportTable, W(table), W(id));
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDriverGetVersion(int *version)
{
    SIM_ENTER_ANY_TIME(cuDriverGetVersion, W(version));
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim_driver_version;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int Flags)
{
    SIM_ENTER_ANY_TIME(cuInit, W(Flags));
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_init();
}

CUresult cuProfilerStart(void)
{
    SIM_ENTER(cuProfilerStart);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    SIM_ENTER(cuProfilerStop);
    return CUDA_SUCCESS;
}
