/*
 * nvml.h: what the card's own tools say, for measuring.
 *
 * libnvidia-ml.so.1 is opened at the first question, never earlier, and nvmlInit is called
 * once; it is never shut down, since the program may use NVML too. Any thread; no lock is held.
 * A process query costs about half a millisecond, so it belongs to rare moments.
 */
#ifndef GB_DRIVER_NVML_H
#define GB_DRIVER_NVML_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Device memory that NVML shows for this process on one device, in bytes; 0 where the process
 * is not in the list. The device is found by uuid_text ("GPU-..." or "MIG-..."), else by
 * pci_text
 * ("0000:0a:00.0"); either may be NULL. False, *bytes untouched, where NVML is missing or does
 * not know (older drivers on Windows-like models, MIG, more than 1,024 processes).
 */
bool gb_nvml_process_bytes(const char *uuid_text, const char *pci_text, uint64_t *bytes);

/*
 * The whole card: total is what a program can use (the driver's reserve taken off where NVML
 * tells it), free and used are all processes'. Bytes. False, outputs untouched, where NVML is
 * missing. Any output may be NULL.
 */
bool gb_nvml_card_bytes(const char *uuid_text, const char *pci_text, uint64_t *total,
                        uint64_t *free, uint64_t *used);

/* In a forked child: forget everything, start anew at the next question. */
void gb_nvml_forked(void);

#endif
