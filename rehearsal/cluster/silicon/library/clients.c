/* Clients: the processes of the node that have a GPU open, through NVML or CUDA.
 *
 * A client holds a read lock on the GPU's byte of the file `<state>.clients`, which ends with the
 * process, however that ends. Locks of an open file description: a process that loads both
 * libraries, or two copies of one, is two clients, and its forks belong to it. Without the file no
 * client is counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "silicon.h"

static int descriptor = -1;
static bool opened[MAX_GPUS];

static int clients_file(void)
{
    char name[4096];
    if (descriptor < 0 && state_file(".clients", name, sizeof name)) {
        descriptor = open(name, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            descriptor = open(name, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    }
    return descriptor;
}

static struct flock byte_of(const struct gpu *gpu, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = gpu->index, .l_len = 1};
}

bool open_elsewhere(const struct gpu *gpu)
{
    struct flock lock = byte_of(gpu, F_WRLCK);
    return clients_file() >= 0 && fcntl(descriptor, F_OFD_GETLK, &lock) == 0 &&
           lock.l_type != F_UNLCK;
}

static bool held(const struct node *node, const struct gpu *gpu)
{
    for (unsigned i = 0; i < node->process_count; i++)
        if (node->processes[i].gpu == gpu->index)
            return true;
    return gpu->health[HEALTH_persistence] != 0 || open_elsewhere(gpu);
}

/* Without persistence mode the driver starts a GPU for its first client, and stops it after the
 * last: one to three seconds each. Source: NVIDIA, "Driver Persistence". */
long long open_gpu(const struct node *node, const struct gpu *gpu)
{
    if (opened[gpu->index])
        return 0;
    long long ms = held(node, gpu) ? 0 : gpu->health[HEALTH_start_ms];
    struct flock lock = byte_of(gpu, F_RDLCK);
    if (clients_file() >= 0)
        fcntl(descriptor, F_OFD_SETLK, &lock);
    opened[gpu->index] = true;
    return ms;
}

void close_gpus(void)
{
    if (descriptor >= 0)
        close(descriptor);
    descriptor = -1;
    memset(opened, 0, sizeof opened);
}
