/* Shared by the copies that wait and those that do not. */
#ifndef STANDIN_COPY_H
#define STANDIN_COPY_H

#include "sim.h"

bool sim_copy_address(uint64_t address, uint64_t bytes);
CUresult sim_copy_work(CUstream stream, bool per_thread, bool wait);
CUresult sim_copy(uint64_t to, bool to_host, uint64_t from, bool from_host, uint64_t bytes,
                  CUstream stream, bool per_thread, bool wait);
CUresult sim_fill(uint64_t to, uint64_t value, unsigned width, uint64_t count, CUstream stream,
                  bool per_thread, bool wait);

#endif
