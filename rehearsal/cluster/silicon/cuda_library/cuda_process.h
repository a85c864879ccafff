/* One process's view of a node's GPUs through CUDA. Simulated: nothing computes on a GPU, memory is
 * an account of what was written where, and time is counted, not spent. Not for several threads. */
#ifndef SLICEWRIGHT_CUDA_PROCESS_H
#define SLICEWRIGHT_CUDA_PROCESS_H

#include "../library/silicon.h"
#include "cuda_abi.h"

#pragma GCC visibility push(hidden)

enum { MAX_DEVICES = 64, MIB = 1 << 20 };

/* A device that this process sees: a whole GPU, or a compute instance of a GPU instance. */
struct cuda_device {
    const struct model *model;
    unsigned gpu, gi, ci;          /* NO_INSTANCE of a whole GPU */
    unsigned slots, sms;
    unsigned domain, bus, slot;
    bool ecc;
    unsigned long long memory, held;    /* bytes; `held` by other processes */
    char uuid[UUID_SIZE], gpu_uuid[UUID_SIZE], name[2 * NAME_SIZE];
};

/* process.c */
extern struct cuda_device devices[MAX_DEVICES];
extern int device_count;
int driver_cuda(void);                 /* 12040 = CUDA 12.4 */
CUresult ready(void);                  /* initialized, and no earlier error of the device */
CUresult spoil(CUresult code);         /* a sticky error: every later call returns it */
/* The injected fault of this call on this device (NULL: of the process), after its delay. */
CUresult fault(const char *call, const struct cuda_device *device);
unsigned compute_mode(const struct cuda_device *device);
bool used_by_others(const struct cuda_device *device);

/* visible.c */
int list_devices(const struct node *node); /* fills `devices` by CUDA_VISIBLE_DEVICES */

/* context.c */
const struct cuda_device *current(void);
unsigned long long context_bytes(const struct cuda_device *device);
double *clock_ms(void);                /* the current context's simulated clock */
double bytes_per_ms(const struct cuda_device *device);

/* memory.c */
CUresult put_pattern(CUdeviceptr buffer, unsigned long long words, unsigned seed, long wrong);
CUresult count_wrong(CUdeviceptr buffer, unsigned long long words, unsigned seed,
                     unsigned long long *wrong);
CUresult add_to_word(CUdeviceptr address, unsigned value);
void free_memory(const struct cuda_device *device);

#pragma GCC visibility pop

#endif
