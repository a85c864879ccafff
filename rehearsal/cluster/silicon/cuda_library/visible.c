/* The devices of a process, by CUDA_VISIBLE_DEVICES and what it may open.
 *
 * One compute instance of each GPU instance is a device of one process from driver R570 on; before,
 * one MIG device at all. Without the variable a process of an older driver sees the first MIG
 * device if there is one, else every GPU (inferred). Sources: NVIDIA MIG user guide, "CUDA Device
 * Enumeration"; CUDA C++ programming guide, "CUDA environment variables". */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_process.h"

enum { SEVERAL_MIG_DEVICES_FROM = 570 };

static bool sees_several(const struct node *node)
{
    return atoi(node->driver) >= SEVERAL_MIG_DEVICES_FROM;
}

static unsigned long long held(const struct node *node, const struct gpu *gpu, unsigned gi)
{
    unsigned long long mib = 0;
    for (unsigned i = 0; i < node->process_count; i++)
        if (node->processes[i].gpu == gpu->index &&
            (gi == NO_INSTANCE || node->processes[i].gi == gi))
            mib += node->processes[i].memory_mib;
    return mib * MIB;
}

static struct cuda_device of_gpu(const struct node *node, const struct gpu *gpu)
{
    struct cuda_device device = {
        .model = gpu->model, .gpu = gpu->index, .gi = NO_INSTANCE, .ci = NO_INSTANCE,
        .slots = gpu->model->slots == 0 ? 1 : gpu->model->slots, .sms = gpu->model->sms,
        .domain = gpu->domain, .bus = gpu->bus, .slot = gpu->slot,
        .ecc = gpu->health[HEALTH_ecc_mode] != 0,
        .memory = (unsigned long long)gpu->model->memory_mib * MIB,
        .held = held(node, gpu, NO_INSTANCE),
    };
    unsigned long long limit = memory_limit((unsigned)device_count);
    if (limit != 0 && limit < device.memory) {
        device.memory = limit;
        device.held = 0;
    }
    snprintf(device.uuid, sizeof device.uuid, "%s", gpu->uuid);
    snprintf(device.gpu_uuid, sizeof device.gpu_uuid, "%s", gpu->uuid);
    snprintf(device.name, sizeof device.name, "%s", gpu->model->name);
    return device;
}

static struct cuda_device of_mig_device(const struct node *node, const struct gpu *gpu,
                                        const struct gpu_instance *gi,
                                        const struct compute_instance *ci)
{
    struct cuda_device device = of_gpu(node, gpu);
    device.gi = gi->id;
    device.ci = ci->id;
    device.slots = gi->slice->size;
    device.sms = gi->slice->sms * ci->size / gi->slice->slices;
    device.memory = (unsigned long long)gi->slice->memory_mib * MIB;
    device.held = held(node, gpu, gi->id);
    snprintf(device.uuid, sizeof device.uuid, "%s", ci->uuid);
    snprintf(device.name, sizeof device.name, "%s MIG %s", gpu->model->name, gi->slice->name);
    return device;
}

/* False: the device is not enumerated, because the process has its limit of MIG devices. */
static bool add(const struct node *node, struct cuda_device device)
{
    for (int i = 0; device.gi != NO_INSTANCE && i < device_count; i++)
        if (devices[i].gi != NO_INSTANCE &&
            (!sees_several(node) || (devices[i].gpu == device.gpu && devices[i].gi == device.gi)))
            return false;
    if (device_count == MAX_DEVICES)
        return false;
    devices[device_count++] = device;
    return true;
}

static bool usable(const struct gpu *gpu) { return !gpu->lost && may_use_gpu(gpu); }

static void add_all(const struct node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gpu *gpu = &node->gpus[i];
        for (unsigned g = 0; usable(gpu) && gpu->mig && g < gpu->count; g++)
            for (unsigned c = 0; c < gpu->instances[g].count; c++) {
                const struct gpu_instance *gi = &gpu->instances[g];
                if (may_use_mig_device(node, gpu, gi, &gi->computes[c]))
                    add(node, of_mig_device(node, gpu, gi, &gi->computes[c]));
            }
    }
    for (unsigned i = 0; i < node->gpu_count && (device_count == 0 || sees_several(node)); i++)
        if (usable(&node->gpus[i]) && !node->gpus[i].mig)
            add(node, of_gpu(node, &node->gpus[i]));
}

/* GPUs by index or UUID, MIG devices by UUID or, as before R470, by GPU and instances. */
static bool names_mig_device(const char *word, const struct gpu *gpu, const struct gpu_instance *gi,
                             const struct compute_instance *ci)
{
    char old[UUID_SIZE + 32];
    snprintf(old, sizeof old, "MIG-%s/%u/%u", gpu->uuid, gi->id, ci->id);
    return strcmp(word, ci->uuid) == 0 || strcmp(word, old) == 0;
}

static bool names_gpu(const char *word, const struct gpu *gpu)
{
    char *rest;
    unsigned long index = strtoul(word, &rest, 10);
    return (*rest == '\0' && *word != '\0' && index == gpu->index) ||
           (strncmp(word, "GPU-", 4) == 0 && strncmp(gpu->uuid, word, strlen(word)) == 0);
}

/* False: the word names no device that exists. */
static bool add_named(const struct node *node, const char *word)
{
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gpu *gpu = &node->gpus[i];
        if (!usable(gpu))
            continue;
        if (!gpu->mig && names_gpu(word, gpu))
            return add(node, of_gpu(node, gpu)), true;
        for (unsigned g = 0; gpu->mig && g < gpu->count; g++)
            for (unsigned c = 0; c < gpu->instances[g].count; c++) {
                const struct gpu_instance *gi = &gpu->instances[g];
                if (names_mig_device(word, gpu, gi, &gi->computes[c]))
                    return may_use_mig_device(node, gpu, gi, &gi->computes[c]) &&
                           (add(node, of_mig_device(node, gpu, gi, &gi->computes[c])), true);
            }
    }
    return false;
}

int list_devices(const struct node *node)
{
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");
    device_count = 0;
    if (variable == NULL) {
        add_all(node);
        return device_count;
    }
    char *words = strdup(variable), *rest = words;
    /* One that does not exist hides itself and all after it. */
    for (char *word; words != NULL && (word = strsep(&rest, ",")) != NULL;)
        if (!add_named(node, word))
            break;
    free(words);
    return device_count;
}
