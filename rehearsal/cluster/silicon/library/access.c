/* What this process may open of the node's GPUs, which is what NVML shows it of them.
 *
 * SLICEWRIGHT_FAKE_NVML_DEV names the directory that is /dev to this process: a container has the
 * device nodes of the moment it was created. Unset or empty, the process sees the host's own /dev,
 * in which every node exists. Source: NVIDIA MIG user guide, "Device nodes and capabilities".
 *
 * A file `.device-rules-N` in it: NVIDIA's hook has added the GPUs to the device rules of the
 * container's cgroup, when systemd had written the rules of the node's containers N times
 * (`<state>.device-rules`). `systemctl daemon-reload` writes them again, without the GPUs: the
 * nodes exist, and no open succeeds. Source: NVIDIA Container Toolkit, "Troubleshooting",
 * containers losing access to GPUs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "silicon.h"

/* Minors as root.py lists them in /proc/driver/nvidia-caps/mig-minors: config, monitor, then per
 * MIG-capable GPU and GPU instance id one for the instance and one for each compute instance id. */
enum { CONFIG = 1, MONITOR = 2, FIRST = 3, GPU_INSTANCE_IDS = 15, COMPUTE_INSTANCE_IDS = 8 };

static const char *device_directory(void)
{
    const char *path = getenv("SLICEWRIGHT_FAKE_NVML_DEV");
    return path != NULL && *path != '\0' ? path : NULL;
}

/* How often systemd has rewritten the device rules of the node's containers. */
static unsigned device_rules(void)
{
    char path[4096];
    unsigned count = 0;
    FILE *file = state_file(".device-rules", path, sizeof path) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return 0;
    if (fscanf(file, "%u", &count) != 1)
        count = 0;
    fclose(file);
    return count;
}

static bool denied(void)
{
    char path[4096];
    const char *directory = device_directory();
    if (directory == NULL)
        return false;
    for (unsigned older = 0, now = device_rules(); older < now; older++)
        if (snprintf(path, sizeof path, "%s/.device-rules-%u", directory, older) <
                (int)sizeof path &&
            access(path, F_OK) == 0)
            return true;
    return false;
}

bool may_open(const char *name)
{
    char path[4096];
    const char *directory = device_directory();
    if (directory == NULL)
        return true;
    if (denied() || snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool may_open_capability(unsigned minor)
{
    char name[64];
    snprintf(name, sizeof name, "nvidia-caps/nvidia-cap%u", minor);
    return may_open(name);
}

/* The minor of a GPU instance, or of one of its compute instances with `ci`. */
static unsigned capability_minor(const struct node *node, const struct gpu *gpu,
                                 const struct gpu_instance *gi, const struct compute_instance *ci)
{
    unsigned before = 0;
    for (unsigned i = 0; i < gpu->index; i++)
        before += node->gpus[i].model->mig != MIG_NONE;
    return FIRST + (before * GPU_INSTANCE_IDS + gi->id) * (1 + COMPUTE_INSTANCE_IDS) +
           (ci == NULL ? 0 : 1 + ci->id);
}

nvmlReturn_t open_driver(void)
{
    if (may_open("nvidiactl"))
        return NVML_SUCCESS;
    return denied() ? NVML_ERROR_UNKNOWN : NVML_ERROR_DRIVER_NOT_LOADED;
}

bool may_use_gpu(const struct gpu *gpu)
{
    char name[32];
    snprintf(name, sizeof name, "nvidia%u", gpu->minor);
    return may_open(name);
}

bool may_use_mig_device(const struct node *node, const struct gpu *gpu,
                        const struct gpu_instance *gi, const struct compute_instance *ci)
{
    return may_open_capability(capability_minor(node, gpu, gi, NULL)) &&
           may_open_capability(capability_minor(node, gpu, gi, ci));
}

static bool has_sys_admin(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_SYS_ADMIN & 1);
}

/* CAP_SYS_ADMIN has every one of NVIDIA's capabilities. On a host without it, root is enough: there
 * the nodes of `config` and `monitor` are root's. */
bool may_monitor(void)
{
    if (device_directory() == NULL)
        return geteuid() == 0;
    return has_sys_admin() || may_open_capability(MONITOR) || may_open_capability(CONFIG);
}

bool may_change_hardware(void)
{
    if (device_directory() == NULL)
        return geteuid() == 0;
    return has_sys_admin() || may_open_capability(CONFIG);
}

/* NVML has nvidia-modprobe make the nodes of a new instance in the caller's own /dev; elsewhere
 * they appear only where something else makes them. Best effort, as there. */
void make_capability_node(const struct node *node, const struct gpu *gpu,
                          const struct gpu_instance *gi, const struct compute_instance *ci)
{
    char path[4096];
    const char *directory = device_directory();
    if (directory == NULL || !has_sys_admin())
        return;
    if (snprintf(path, sizeof path, "%s/nvidia-caps/nvidia-cap%u", directory,
                 capability_minor(node, gpu, gi, ci)) >= (int)sizeof path)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (fd >= 0)
        close(fd);
}
