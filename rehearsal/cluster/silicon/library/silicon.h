/* One node's GPUs in memory, and how a call accesses them. */
#ifndef SLICEWRIGHT_SILICON_H
#define SLICEWRIGHT_SILICON_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_abi.h"

/* Only NVML's functions are exported; a name like `end` would otherwise resolve to the program's.
 */
#pragma GCC visibility push(hidden)

enum {
    MAX_GPUS = 16,
    MAX_GPU_INSTANCES = 8,
    MAX_COMPUTE_INSTANCES = 8,
    UUID_SIZE = 48,
    NAME_SIZE = 64
};
#define NO_INSTANCE 0xFFFFFFFFu

/* models.def */
enum mig_kind { MIG_NONE = 0, MIG_AFTER_RESET = 1, MIG_AT_ONCE = 2 };
struct model {
    const char *key, *name;
    unsigned pci_id, memory_mib, sms, slots, slices, cuda_major, cuda_minor, architecture, brand,
        mig, power_w, nvlinks, max_sm_mhz, memory_mhz, bus_bits, cores_per_sm, reserved_mib,
        remap_banks, pci_subsystem;
};
struct slice {
    const char *model, *name;
    unsigned profile, id, slices, most, starts, size, sms, memory_mib, copies, decoders, encoders,
        jpegs, ofas, capabilities;
};
const struct model *model_by_key(const char *key);
const struct slice *slice_by_profile(const struct model *model, unsigned profile);
const struct slice *slice_by_id(const struct model *model, unsigned id);
const struct slice *slice_whole(const struct model *model);
unsigned compute_sms(const struct model *model, const struct slice *slice,
                     unsigned slices); /* SMs of a compute instance of so many slices */

/* health.def */
enum health_key {
#define HEALTH(name, well) HEALTH_##name,
#include "health.def"
#undef HEALTH
    HEALTH_COUNT
};

struct compute_instance {
    unsigned id, profile, start, size, index;
    unsigned long serial;
    char uuid[UUID_SIZE];
};
struct gpu_instance {
    const struct slice *slice;
    unsigned id, start;
    unsigned long serial;
    unsigned count;
    struct compute_instance computes[MAX_COMPUTE_INSTANCES];
};
struct gpu {
    const struct model *model;
    unsigned index, minor, domain, bus, slot;
    bool mig, pending, lost;
    char uuid[UUID_SIZE], board[32];
    long long health[HEALTH_COUNT];
    unsigned count;
    struct gpu_instance instances[MAX_GPU_INSTANCES];
};
struct process { unsigned gpu, pid, gi, ci; unsigned long long memory_mib; char name[NAME_SIZE]; };
struct event { unsigned long sequence; unsigned gpu, gi, ci; unsigned long long type, data; };
/* Percent, of the GPU instance `gi` or, with NO_INSTANCE, of the whole GPU. */
struct load { unsigned gpu, gi, graphics, sm, occupancy, dram; };
/* `uuid`: of the MIG device or GPU that the fault is of, for calls of CUDA; empty: every device. */
struct injection {
    char call[NAME_SIZE], uuid[UUID_SIZE];
    long gpu, code, times, delay_ms;
};
struct node {
    unsigned long serial;
    char driver[32], seed[NAME_SIZE];
    int cuda;
    unsigned gpu_count, process_count, event_count, load_count, injection_count;
    struct gpu gpus[MAX_GPUS];
    struct process *processes;
    struct event *events;
    struct load *loads;
    struct injection *injections;
};

/* state.c: the node's state file, env SLICEWRIGHT_FAKE_NVML_STATE */
nvmlReturn_t
state_refresh(struct node *node); /* reads the file if it is another than the one read last */
nvmlReturn_t
state_write(const struct node *node); /* temp file + rename; the caller holds the lock */
bool state_file(const char *suffix, char *name, size_t size); /* a path beside the state file's */
int state_lock(void);                 /* a descriptor to close, or -1: this process may not write */
void state_forget(struct node *node);
void make_uuid(const struct node *node, unsigned long serial, const char *prefix,
               char uuid[UUID_SIZE]);

/* call.c: every exported function runs between begin and end */
enum wants {
    WHOLE = 1,       /* the handle of a GPU */
    MIG = 2,         /* the handle of a MIG device */
    EITHER = 3,
    PRIVILEGED = 4,  /* changes partitions: the `config` capability */
    MONITORS = 16,   /* sees what others hold: the `monitor` or `config` capability */
    CHANGES = 8,     /* takes the state's lock; ended with end_changed */
};
struct call {
    nvmlReturn_t result;
    struct node *node;
    struct gpu *gpu;
    struct gpu_instance *gi;
    struct compute_instance *ci;
    int lock;
};
bool begin_system(struct call *call, const char *name, unsigned wants);
bool begin_gpu(struct call *call, const char *name, nvmlDevice_t device, unsigned wants);
bool begin_gpu_instance(struct call *call, const char *name, nvmlGpuInstance_t instance,
                        unsigned wants);
bool begin_compute_instance(struct call *call, const char *name, nvmlComputeInstance_t compute,
                            unsigned wants);
nvmlReturn_t end(struct call *call, nvmlReturn_t result);
nvmlReturn_t end_changed(struct call *call);
nvmlReturn_t end_created(struct call *call,
                         const void *handle); /* no handle left: nothing was created */
nvmlReturn_t end_text(struct call *call, const char *text, char *buffer, unsigned length);
void start_gpu(struct call *call); /* takes the time that a GPU takes that nobody holds */
nvmlReturn_t library_init(const char *name);
nvmlReturn_t library_shutdown(void);

/* device.c */
unsigned nvlinks(const struct call *call);

/* health.c */
bool remaps_rows(const struct gpu *gpu);

/* clients.c: which processes of the node have a GPU open */
long long open_gpu(const struct node *node, const struct gpu *gpu); /* ms that its start takes */
void close_gpus(void);
bool open_elsewhere(const struct gpu *gpu);

/* access.c: what this process may open */
bool may_open(const char *name); /* below /dev */
nvmlReturn_t open_driver(void);
bool may_use_gpu(const struct gpu *gpu);
bool may_use_mig_device(const struct node *node, const struct gpu *gpu,
                        const struct gpu_instance *gi, const struct compute_instance *ci);
bool may_monitor(void);
bool may_change_hardware(void);
void make_capability_node(const struct node *node, const struct gpu *gpu,
                          const struct gpu_instance *gi, const struct compute_instance *ci);

/* A handle refers to an instance by its serial, which is never reused: stale handles are detected.
 */
nvmlDevice_t gpu_handle(const struct gpu *gpu);
nvmlDevice_t mig_handle(struct node *node, const struct gpu *gpu,
                        const struct compute_instance *ci);
nvmlGpuInstance_t gpu_instance_handle(struct node *node, const struct gpu *gpu,
                                      const struct gpu_instance *gi);
nvmlComputeInstance_t compute_instance_handle(struct node *node, const struct gpu *gpu,
                                              const struct compute_instance *ci);

#pragma GCC visibility pop

#endif
