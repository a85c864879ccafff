/* What every call begins and ends with: the process's mutex, the newest state, injected faults, and
 * resolving handles. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "silicon.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct node node;
static unsigned references;

/* Handles are addresses into these tables; callers do not dereference them. */
enum { HANDLES = 4096, PROBES = 256 };
struct handle { unsigned long serial; unsigned gpu; };
static char gpu_handles[MAX_GPUS];
static struct handle mig_handles[HANDLES], gi_handles[HANDLES], ci_handles[HANDLES];

/* --- instances by serial --- */

static struct gpu_instance *find_gpu_instance(unsigned gpu, unsigned long serial)
{
    if (gpu < node.gpu_count)
        for (unsigned i = 0; i < node.gpus[gpu].count; i++)
            if (node.gpus[gpu].instances[i].serial == serial)
                return &node.gpus[gpu].instances[i];
    return NULL;
}

static struct compute_instance *find_compute_instance(unsigned gpu, unsigned long serial,
                                                      struct gpu_instance **owner)
{
    if (gpu < node.gpu_count)
        for (unsigned i = 0; i < node.gpus[gpu].count; i++) {
            struct gpu_instance *gi = &node.gpus[gpu].instances[i];
            for (unsigned c = 0; c < gi->count; c++)
                if (gi->computes[c].serial == serial) {
                    *owner = gi;
                    return &gi->computes[c];
                }
        }
    return NULL;
}

static bool alive(const struct handle *table, const struct handle *handle)
{
    struct gpu_instance *owner;
    return table == gi_handles ? find_gpu_instance(handle->gpu, handle->serial) != NULL
                               : find_compute_instance(handle->gpu, handle->serial, &owner) != NULL;
}

/* The one handle for this serial. Entries of destroyed instances are reused; until then their
 * handles are refused. */
static struct handle *intern(struct handle *table, unsigned gpu, unsigned long serial)
{
    struct handle *vacant = NULL;
    for (unsigned probe = 0; probe < PROBES; probe++) {
        struct handle *handle = &table[(serial + probe) % HANDLES];
        if (handle->serial == serial && handle->gpu == gpu)
            return handle;
        if (vacant == NULL && (handle->serial == 0 || !alive(table, handle)))
            vacant = handle;
        if (handle->serial == 0)
            break;
    }
    if (vacant != NULL)
        *vacant = (struct handle){.serial = serial, .gpu = gpu};
    return vacant;
}

nvmlDevice_t gpu_handle(const struct gpu *gpu)
{
    return (nvmlDevice_t){(void *)&gpu_handles[gpu->index]};
}

nvmlDevice_t mig_handle(struct node *of, const struct gpu *gpu, const struct compute_instance *ci)
{
    (void)of;
    return (nvmlDevice_t){(void *)intern(mig_handles, gpu->index, ci->serial)};
}

nvmlGpuInstance_t gpu_instance_handle(struct node *of, const struct gpu *gpu,
                                      const struct gpu_instance *gi)
{
    (void)of;
    return (nvmlGpuInstance_t){(void *)intern(gi_handles, gpu->index, gi->serial)};
}

nvmlComputeInstance_t compute_instance_handle(struct node *of, const struct gpu *gpu,
                                              const struct compute_instance *ci)
{
    (void)of;
    return (nvmlComputeInstance_t){(void *)intern(ci_handles, gpu->index, ci->serial)};
}

static const struct handle *within(const struct handle *table, const void *address)
{
    uintptr_t first = (uintptr_t)table, at = (uintptr_t)address;
    if (at < first || at >= first + HANDLES * sizeof *table || (at - first) % sizeof *table != 0)
        return NULL;
    return &table[(at - first) / sizeof *table];
}

/* --- injected faults --- */

enum { DELAY_STEP_MS = 50 };

static struct injection *find_injection(const char *name, long gpu)
{
    for (unsigned i = 0; i < node.injection_count; i++) {
        struct injection *injection = &node.injections[i];
        if (injection->times != 0 &&
            (strcmp(injection->call, name) == 0 ||
             (strcmp(injection->call, "*") == 0 && gpu >= 0)) &&
            (injection->gpu < 0 || injection->gpu == gpu))
            return injection;
    }
    return NULL;
}

static void use_up(const char *name, long gpu)
{
    int lock = state_lock();
    if (lock < 0)
        return; /* not root: only root counts faults down */
    struct injection *injection =
        state_refresh(&node) == NVML_SUCCESS ? find_injection(name, gpu) : NULL;
    if (injection != NULL && injection->times > 0) {
        injection->times--;
        state_write(&node);
    }
    close(lock);
}

/* Waits without the mutex. A standing delay ends early when its injection has gone, so that a call
 * can be held until it is let go. Returns how the newest state was read. */
static nvmlReturn_t delay(const char *name, long gpu, const struct injection *injection)
{
    nvmlReturn_t fresh = NVML_SUCCESS;
    bool standing = injection->times < 0;
    for (long left_ms = injection->delay_ms; left_ms > 0; left_ms -= DELAY_STEP_MS) {
        long step_ms = left_ms < DELAY_STEP_MS || !standing ? left_ms : DELAY_STEP_MS;
        struct timespec left = {.tv_sec = step_ms / 1000, .tv_nsec = step_ms % 1000 * 1000000};
        pthread_mutex_unlock(&mutex);
        while (nanosleep(&left, &left) != 0)
            ;
        pthread_mutex_lock(&mutex);
        fresh = state_refresh(&node);
        if (fresh != NVML_SUCCESS || !standing || find_injection(name, gpu) == NULL)
            break;
    }
    return fresh;
}

/* True: the call ends with *result. Waits, as a hanging driver does, without the mutex. */
static bool fault(const char *name, long gpu, nvmlReturn_t *result)
{
    struct injection *found = find_injection(name, gpu);
    if (found == NULL)
        return false;
    struct injection injection = *found;
    if (injection.times > 0)
        use_up(name, gpu);
    nvmlReturn_t fresh = delay(name, gpu, &injection);
    if (fresh != NVML_SUCCESS) {
        *result = fresh;
        return true;
    }
    *result = (nvmlReturn_t)injection.code;
    return injection.code != 0;
}

/* --- begin and end of a call --- */

static bool refuse(struct call *call, nvmlReturn_t result)
{
    call->result = result;
    if (call->lock >= 0)
        close(call->lock);
    call->lock = -1;
    pthread_mutex_unlock(&mutex);
    return false;
}

static bool open_call(struct call *call)
{
    *call = (struct call){.node = &node, .lock = -1};
    pthread_mutex_lock(&mutex);
    if (references == 0)
        return refuse(call, NVML_ERROR_UNINITIALIZED);
    nvmlReturn_t result = state_refresh(&node);
    return result == NVML_SUCCESS ||
           refuse(call, result == NVML_ERROR_DRIVER_NOT_LOADED ? NVML_ERROR_UNKNOWN : result);
}

/* For every call on a GPU with a valid handle: injected faults, a lost GPU, privileges, the lock
 * for changes. */
static bool admit(struct call *call, const char *name, long gpu, unsigned wants)
{
    nvmlReturn_t result;
    if (fault(name, gpu, &result))
        return refuse(call, result);
    if (gpu >= 0 && node.gpus[gpu].lost)
        return refuse(call, NVML_ERROR_GPU_IS_LOST);
    if (((wants & PRIVILEGED) && !may_change_hardware()) || ((wants & MONITORS) && !may_monitor()))
        return refuse(call, NVML_ERROR_NO_PERMISSION);
    if (wants & CHANGES) {
        call->lock = state_lock();
        if (call->lock < 0)
            return refuse(call, NVML_ERROR_NO_PERMISSION);
        result = state_refresh(&node);
        if (result != NVML_SUCCESS)
            return refuse(call, result);
    }
    return true;
}

bool begin_system(struct call *call, const char *name, unsigned wants)
{
    return open_call(call) && admit(call, name, -1, wants);
}

static bool locate_device(struct call *call, nvmlDevice_t device, unsigned wants)
{
    uintptr_t first = (uintptr_t)gpu_handles, at = (uintptr_t)device.handle;
    if (at >= first && at < first + node.gpu_count) {
        call->gpu = &node.gpus[at - first];
        return (wants & WHOLE) || refuse(call, NVML_ERROR_INVALID_ARGUMENT);
    }
    const struct handle *handle = within(mig_handles, device.handle);
    call->ci =
        handle == NULL ? NULL : find_compute_instance(handle->gpu, handle->serial, &call->gi);
    if (call->ci == NULL)
        return refuse(call, NVML_ERROR_INVALID_ARGUMENT);
    call->gpu = &node.gpus[handle->gpu];
    /* For a MIG device, NVML returns NOT_SUPPORTED where only a GPU has the property. */
    return (wants & MIG) || refuse(call, NVML_ERROR_NOT_SUPPORTED);
}

static bool locate_gpu_instance(struct call *call, nvmlGpuInstance_t instance)
{
    const struct handle *handle = within(gi_handles, instance.handle);
    call->gi = handle == NULL ? NULL : find_gpu_instance(handle->gpu, handle->serial);
    if (call->gi == NULL)
        return refuse(call, NVML_ERROR_INVALID_ARGUMENT);
    call->gpu = &node.gpus[handle->gpu];
    return true;
}

static bool locate_compute_instance(struct call *call, nvmlComputeInstance_t compute)
{
    const struct handle *handle = within(ci_handles, compute.handle);
    call->ci =
        handle == NULL ? NULL : find_compute_instance(handle->gpu, handle->serial, &call->gi);
    if (call->ci == NULL)
        return refuse(call, NVML_ERROR_INVALID_ARGUMENT);
    call->gpu = &node.gpus[handle->gpu];
    return true;
}

/* Located again after admit, which may have waited and read a newer state. */
bool begin_gpu(struct call *call, const char *name, nvmlDevice_t device, unsigned wants)
{
    return open_call(call) && locate_device(call, device, wants) &&
           admit(call, name, call->gpu->index, wants) && locate_device(call, device, wants);
}

bool begin_gpu_instance(struct call *call, const char *name, nvmlGpuInstance_t instance,
                        unsigned wants)
{
    return open_call(call) && locate_gpu_instance(call, instance) &&
           admit(call, name, call->gpu->index, wants) && locate_gpu_instance(call, instance);
}

bool begin_compute_instance(struct call *call, const char *name, nvmlComputeInstance_t compute,
                            unsigned wants)
{
    return open_call(call) && locate_compute_instance(call, compute) &&
           admit(call, name, call->gpu->index, wants) && locate_compute_instance(call, compute);
}

nvmlReturn_t end(struct call *call, nvmlReturn_t result)
{
    refuse(call, result);
    return result;
}

nvmlReturn_t end_created(struct call *call, const void *handle)
{
    nvmlReturn_t result = handle == NULL ? NVML_ERROR_MEMORY : state_write(&node);
    if (result != NVML_SUCCESS)
        state_forget(&node); /* the change in memory was not written */
    return end(call, result);
}

nvmlReturn_t end_changed(struct call *call)
{
    return end_created(call, call);
}

nvmlReturn_t end_text(struct call *call, const char *text, char *buffer, unsigned length)
{
    if (buffer == NULL)
        return end(call, NVML_ERROR_INVALID_ARGUMENT);
    if (strlen(text) + 1 > length)
        return end(call, NVML_ERROR_INSUFFICIENT_SIZE);
    memcpy(buffer, text, strlen(text) + 1);
    return end(call, NVML_SUCCESS);
}

/* --- a cold GPU --- */

/* Waits without the mutex. */
void start_gpu(struct call *call)
{
    long long ms = open_gpu(&node, call->gpu);
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    pthread_mutex_unlock(&mutex);
    while (nanosleep(&left, &left) != 0)
        ;
    pthread_mutex_lock(&mutex);
}

/* --- init and shutdown --- */

nvmlReturn_t library_init(const char *name)
{
    pthread_mutex_lock(&mutex);
    nvmlReturn_t result = open_driver();
    if (result == NVML_SUCCESS)
        result = state_refresh(&node);
    if (result == NVML_SUCCESS && !fault(name, -1, &result))
        references++;
    pthread_mutex_unlock(&mutex);
    return result;
}

nvmlReturn_t library_shutdown(void)
{
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_lock(&mutex);
    if (references > 0) {
        result = NVML_SUCCESS;
        if (--references == 0) {
            close_gpus();
            state_forget(&node);
        }
    }
    pthread_mutex_unlock(&mutex);
    return result;
}
