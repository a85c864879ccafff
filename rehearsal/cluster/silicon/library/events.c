/* Events: those that the state file records after a set was created are delivered once, in order.
 */
#include <stdlib.h>
#include <time.h>

#include "silicon.h"

enum { POLL_MS = 50 };

struct registration { unsigned gpu; unsigned long long types; };
struct nvmlEventSet_st {
    unsigned long handed_out;
    unsigned count;
    struct registration registrations[MAX_GPUS];
};
typedef struct nvmlEventSet_st event_set;

/* As the H100 and the H200 answer; what a program registers for beyond that is not refused. */
static const unsigned long long SUPPORTED = 0xFF9F;

static unsigned long newest(const struct node *node)
{
    unsigned long sequence = 0;
    for (unsigned i = 0; i < node->event_count; i++)
        if (node->events[i].sequence > sequence)
            sequence = node->events[i].sequence;
    return sequence;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    event_set *made = set == NULL ? NULL : calloc(1, sizeof *made);
    if (made == NULL)
        return end(&call, set == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_MEMORY);
    made->handed_out = newest(call.node);
    set->handle = made;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    struct call call;
    if (!begin_system(&call, __func__, 0))
        return call.result;
    if (set.handle == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    free(set.handle);
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    if (types == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *types = SUPPORTED;
    return end(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    struct call call;
    if (!begin_gpu(&call, __func__, device, WHOLE))
        return call.result;
    event_set *to = set.handle;
    if (to == NULL)
        return end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < to->count; i++)
        if (to->registrations[i].gpu == call.gpu->index) {
            to->registrations[i].types |= types;
            return end(&call, NVML_SUCCESS);
        }
    to->registrations[to->count++] = (struct registration){.gpu = call.gpu->index, .types = types};
    return end(&call, NVML_SUCCESS);
}

static bool wanted(const event_set *set, const struct event *event)
{
    for (unsigned i = 0; i < set->count; i++)
        if (set->registrations[i].gpu == event->gpu && set->registrations[i].types & event->type)
            return true;
    return false;
}

/* The first event that the set has not delivered; events without a registration are skipped. */
static const struct event *next(event_set *set, const struct node *node)
{
    for (;;) {
        const struct event *first = NULL;
        for (unsigned i = 0; i < node->event_count; i++)
            if (node->events[i].sequence > set->handed_out &&
                (first == NULL || node->events[i].sequence < first->sequence))
                first = &node->events[i];
        if (first == NULL)
            return NULL;
        set->handed_out = first->sequence;
        if (first->gpu < node->gpu_count && wanted(set, first))
            return first;
    }
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    long long until = now_ms() + 1 + timeout_ms; /* now_ms rounds down; never give up early */
    for (;;) {
        struct call call;
        if (!begin_system(&call, "nvmlEventSetWait", 0))
            return call.result;
        if (set.handle == NULL || data == NULL)
            return end(&call, NVML_ERROR_INVALID_ARGUMENT);
        for (unsigned i = 0; i < set.handle->count; i++)
            if (call.node->gpus[set.handle->registrations[i].gpu].lost)
                return end(&call, NVML_ERROR_GPU_IS_LOST);
        const struct event *event = next(set.handle, call.node);
        if (event != NULL) {
            *data = (nvmlEventData_t){.device = gpu_handle(&call.node->gpus[event->gpu]),
                                      .eventType = event->type,
                                      .eventData = event->data,
                                      .gpuInstanceId = event->gi,
                                      .computeInstanceId = event->ci};
            return end(&call, NVML_SUCCESS);
        }
        end(&call, NVML_SUCCESS);
        long long left = until - now_ms();
        if (left <= 0)
            return NVML_ERROR_TIMEOUT;
        /* Without the mutex, so that other threads continue. The file is polled: inotify instances
         * per user are limited. */
        struct timespec pause = {.tv_nsec = (left < POLL_MS ? left : POLL_MS) * 1000000};
        nanosleep(&pause, NULL);
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
