/* The state file: one node's GPUs as lines of `word key=value …`, replaced atomically.
 *
 *   slicewright-silicon 1
 *   node driver=550.90.07 cuda=12040 seed=n1 serial=9
 *   gpu index=0 model=H100-80 uuid=GPU-… board=… pci=0000:1b:00 minor=0 mig=1 pending=1 lost=0
 *   health gpu=0 temperature_c=91
 *   gi gpu=0 id=7 profile=0 start=0 serial=1
 *   ci gpu=0 gi=7 id=0 profile=0 start=0 size=1 index=0 serial=2 uuid=MIG-…
 *   process gpu=0 pid=77 gi=7 ci=0 memory_mib=512 name=python
 *   event sequence=3 gpu=0 type=8 data=79 gi=4294967295 ci=4294967295
 *   load gpu=0 gi=7 graphics=40 sm=35 occupancy=20 dram=55
 *   inject call=nvmlDeviceGetMigMode gpu=3 code=15 times=-1 delay_ms=0
 *   inject call=cuCtxSynchronize gpu=-1 code=719 times=-1 delay_ms=0 uuid=MIG-…
 *
 * rehearsal/cluster/silicon/node_silicon.py reads and writes the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "silicon.h"

static const char *const health_names[HEALTH_COUNT] = {
#define HEALTH(name, well) #name,
#include "health.def"
#undef HEALTH
};
static const long long health_well[HEALTH_COUNT] = {
#define HEALTH(name, well) well,
#include "health.def"
#undef HEALTH
};

/* The file read last stays open, so that no other file gets its inode number: "same inode, same
 * time" then means unchanged. */
static int seen_fd = -1;
static struct stat seen;

static const char *state_path(void)
{
    const char *path = getenv("SLICEWRIGHT_FAKE_NVML_STATE");
    return path != NULL && *path != '\0' ? path : NULL;
}

bool state_file(const char *suffix, char *name, size_t size)
{
    const char *path = state_path();
    return path != NULL && snprintf(name, size, "%s%s", path, suffix) < (int)size;
}

void state_forget(struct node *node)
{
    if (seen_fd >= 0)
        close(seen_fd);
    seen_fd = -1;
    free(node->processes);
    free(node->events);
    free(node->loads);
    free(node->injections);
    memset(node, 0, sizeof *node);
}

/* --- reading --- */

static const char *value_of(char *line, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    for (char *word = strchr(line, ' '); word != NULL; word = strchr(word, ' ')) {
        word++;
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            size_t n = strcspn(word + length + 1, " \n");
            if (n >= size)
                return NULL;
            memcpy(value, word + length + 1, n);
            value[n] = '\0';
            return value;
        }
    }
    return NULL;
}

static bool text(char *line, const char *key, char *value, size_t size)
{
    return value_of(line, key, value, size) != NULL;
}

static bool number(char *line, const char *key, unsigned long long *value)
{
    char digits[32], *rest;
    if (value_of(line, key, digits, sizeof digits) == NULL)
        return false;
    *value = strtoull(digits, &rest, 10);
    return *digits != '\0' && *rest == '\0';
}

static bool small(char *line, const char *key, unsigned *value)
{
    unsigned long long wide;
    if (!number(line, key, &wide) || wide > UINT32_MAX)
        return false;
    *value = (unsigned)wide;
    return true;
}

static bool flag(char *line, const char *key, bool *value)
{
    unsigned digit;
    if (!small(line, key, &digit) || digit > 1)
        return false;
    *value = digit == 1;
    return true;
}

static bool whole_number(char *line, const char *key, long *value)
{
    char digits[32], *rest;
    if (value_of(line, key, digits, sizeof digits) == NULL)
        return false;
    *value = strtol(digits, &rest, 10);
    return *digits != '\0' && *rest == '\0';
}

static struct gpu *gpu_of(struct node *node, char *line)
{
    unsigned index;
    return small(line, "gpu", &index) && index < node->gpu_count ? &node->gpus[index] : NULL;
}

static bool read_node(struct node *node, char *line)
{
    unsigned long long serial;
    unsigned cuda;
    if (!text(line, "driver", node->driver, sizeof node->driver) ||
        !text(line, "seed", node->seed, sizeof node->seed) || !small(line, "cuda", &cuda) ||
        !number(line, "serial", &serial))
        return false;
    node->cuda = (int)cuda;
    node->serial = serial;
    return true;
}

static bool read_gpu(struct node *node, char *line)
{
    struct gpu *gpu = &node->gpus[node->gpu_count];
    char key[NAME_SIZE], pci[32];
    if (node->gpu_count == MAX_GPUS || !small(line, "index", &gpu->index) ||
        gpu->index != node->gpu_count || !text(line, "model", key, sizeof key) ||
        !text(line, "uuid", gpu->uuid, sizeof gpu->uuid) ||
        !text(line, "board", gpu->board, sizeof gpu->board) ||
        !text(line, "pci", pci, sizeof pci) ||
        sscanf(pci, "%x:%x:%x", &gpu->domain, &gpu->bus, &gpu->slot) != 3 ||
        !small(line, "minor", &gpu->minor) || !flag(line, "mig", &gpu->mig) ||
        !flag(line, "pending", &gpu->pending) || !flag(line, "lost", &gpu->lost))
        return false;
    gpu->model = model_by_key(key);
    memcpy(gpu->health, health_well, sizeof gpu->health);
    node->gpu_count++;
    return gpu->model != NULL;
}

static bool read_health(struct node *node, char *line)
{
    struct gpu *gpu = gpu_of(node, line);
    if (gpu == NULL)
        return false;
    for (int key = 0; key < HEALTH_COUNT; key++) {
        unsigned long long value;
        if (number(line, health_names[key], &value))
            gpu->health[key] = (long long)value;
    }
    return true;
}

static bool read_gpu_instance(struct node *node, char *line)
{
    struct gpu *gpu = gpu_of(node, line);
    unsigned profile;
    unsigned long long serial;
    if (gpu == NULL || gpu->count == MAX_GPU_INSTANCES)
        return false;
    struct gpu_instance *gi = &gpu->instances[gpu->count];
    if (!small(line, "id", &gi->id) || !small(line, "profile", &profile) ||
        !small(line, "start", &gi->start) || !number(line, "serial", &serial))
        return false;
    gi->slice = slice_by_profile(gpu->model, profile);
    gi->serial = serial;
    gpu->count++;
    return gi->slice != NULL;
}

static bool read_compute_instance(struct node *node, char *line)
{
    struct gpu *gpu = gpu_of(node, line);
    unsigned owner;
    unsigned long long serial;
    if (gpu == NULL || !small(line, "gi", &owner))
        return false;
    for (unsigned i = 0; i < gpu->count; i++) {
        struct gpu_instance *gi = &gpu->instances[i];
        if (gi->id != owner)
            continue;
        if (gi->count == MAX_COMPUTE_INSTANCES)
            return false;
        struct compute_instance *ci = &gi->computes[gi->count++];
        if (!small(line, "id", &ci->id) || !small(line, "profile", &ci->profile) ||
            !small(line, "start", &ci->start) || !small(line, "size", &ci->size) ||
            !small(line, "index", &ci->index) || !number(line, "serial", &serial) ||
            !text(line, "uuid", ci->uuid, sizeof ci->uuid))
            return false;
        ci->serial = serial;
        return true;
    }
    return false;
}

/* Space for one more element at the end of an array, zeroed; NULL without memory. */
static void *grown(void **array, unsigned *count, size_t size)
{
    void *larger = realloc(*array, (*count + 1) * size);
    if (larger == NULL)
        return NULL;
    *array = larger;
    return memset((char *)larger + (*count)++ * size, 0, size);
}

static bool read_process(struct node *node, char *line)
{
    struct process *process =
        grown((void **)&node->processes, &node->process_count, sizeof *process);
    return process != NULL && small(line, "gpu", &process->gpu) &&
           small(line, "pid", &process->pid) && small(line, "gi", &process->gi) &&
           small(line, "ci", &process->ci) && number(line, "memory_mib", &process->memory_mib) &&
           text(line, "name", process->name, sizeof process->name);
}

static bool read_event(struct node *node, char *line)
{
    struct event *event = grown((void **)&node->events, &node->event_count, sizeof *event);
    unsigned long long sequence;
    if (event == NULL || !number(line, "sequence", &sequence) || !small(line, "gpu", &event->gpu) ||
        !number(line, "type", &event->type) || !number(line, "data", &event->data) ||
        !small(line, "gi", &event->gi) || !small(line, "ci", &event->ci))
        return false;
    event->sequence = sequence;
    return true;
}

static bool read_load(struct node *node, char *line)
{
    struct load *load = grown((void **)&node->loads, &node->load_count, sizeof *load);
    return load != NULL && small(line, "gpu", &load->gpu) && small(line, "gi", &load->gi) &&
           small(line, "graphics", &load->graphics) && small(line, "sm", &load->sm) &&
           small(line, "occupancy", &load->occupancy) && small(line, "dram", &load->dram);
}

static bool read_injection(struct node *node, char *line)
{
    struct injection *injection =
        grown((void **)&node->injections, &node->injection_count, sizeof *injection);
    if (injection != NULL)
        text(line, "uuid", injection->uuid, sizeof injection->uuid);
    return injection != NULL && text(line, "call", injection->call, sizeof injection->call) &&
           whole_number(line, "gpu", &injection->gpu) &&
           whole_number(line, "code", &injection->code) &&
           whole_number(line, "times", &injection->times) &&
           whole_number(line, "delay_ms", &injection->delay_ms);
}

static const struct { const char *word; bool (*read)(struct node *, char *);
} readers[] = {
    {"node ", read_node},           {"gpu ", read_gpu},
    {"health ", read_health},       {"gi ", read_gpu_instance},
    {"ci ", read_compute_instance}, {"process ", read_process},
    {"event ", read_event},         {"load ", read_load},
    {"inject ", read_injection},
};

static bool read_line(struct node *node, char *line)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strncmp(line, readers[i].word, strlen(readers[i].word)) == 0)
            return readers[i].read(node, line);
    return false;
}

static nvmlReturn_t read_all(struct node *node, int fd)
{
    int copy = dup(fd);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    if (file == NULL) {
        if (copy >= 0)
            close(copy);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    char *line = NULL;
    size_t size = 0;
    bool good = getline(&line, &size, file) > 0 && strcmp(line, "slicewright-silicon 1\n") == 0;
    for (int at = 2; good && getline(&line, &size, file) > 0; at++) {
        good = read_line(node, line);
        if (!good)
            fprintf(stderr, "fake libnvidia-ml: %s line %d is invalid: %s", state_path(), at, line);
    }
    free(line);
    fclose(file);
    return good && node->driver[0] != '\0' ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t state_refresh(struct node *node)
{
    const char *path = state_path();
    struct stat now;
    if (path == NULL || stat(path, &now) != 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (seen_fd >= 0 && now.st_dev == seen.st_dev && now.st_ino == seen.st_ino &&
        now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return NVML_SUCCESS;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    state_forget(node);
    if (fstat(fd, &seen) != 0) {
        close(fd);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    nvmlReturn_t result = read_all(node, fd);
    if (result != NVML_SUCCESS) {
        close(fd);
        state_forget(node);
        return result;
    }
    seen_fd = fd;
    return NVML_SUCCESS;
}

/* --- writing --- */

int state_lock(void)
{
    char name[4096];
    if (!state_file(".lock", name, sizeof name))
        return -1;
    /* A descriptor per change, so that threads of one process exclude each other. */
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            close(fd);
            return -1;
        }
    return fd;
}

static void write_gpu(FILE *file, const struct gpu *gpu)
{
    fprintf(file,
            "gpu index=%u model=%s uuid=%s board=%s pci=%04x:%02x:%02x minor=%u mig=%d pending=%d "
            "lost=%d\n",
            gpu->index, gpu->model->key, gpu->uuid, gpu->board, gpu->domain, gpu->bus, gpu->slot,
            gpu->minor, gpu->mig, gpu->pending, gpu->lost);
    for (int key = 0; key < HEALTH_COUNT; key++)
        if (gpu->health[key] != health_well[key])
            fprintf(file, "health gpu=%u %s=%lld\n", gpu->index, health_names[key],
                    gpu->health[key]);
    for (unsigned i = 0; i < gpu->count; i++) {
        const struct gpu_instance *gi = &gpu->instances[i];
        fprintf(file, "gi gpu=%u id=%u profile=%u start=%u serial=%lu\n", gpu->index, gi->id,
                gi->slice->profile, gi->start, gi->serial);
        for (unsigned c = 0; c < gi->count; c++) {
            const struct compute_instance *ci = &gi->computes[c];
            fprintf(
                file,
                "ci gpu=%u gi=%u id=%u profile=%u start=%u size=%u index=%u serial=%lu uuid=%s\n",
                gpu->index, gi->id, ci->id, ci->profile, ci->start, ci->size, ci->index, ci->serial,
                ci->uuid);
        }
    }
}

static void write_all(FILE *file, const struct node *node)
{
    fprintf(file, "slicewright-silicon 1\nnode driver=%s cuda=%d seed=%s serial=%lu\n",
            node->driver, node->cuda, node->seed, node->serial);
    for (unsigned i = 0; i < node->gpu_count; i++)
        write_gpu(file, &node->gpus[i]);
    for (unsigned i = 0; i < node->process_count; i++) {
        const struct process *p = &node->processes[i];
        fprintf(file, "process gpu=%u pid=%u gi=%u ci=%u memory_mib=%llu name=%s\n", p->gpu, p->pid,
                p->gi, p->ci, p->memory_mib, p->name);
    }
    for (unsigned i = 0; i < node->event_count; i++) {
        const struct event *e = &node->events[i];
        fprintf(file, "event sequence=%lu gpu=%u type=%llu data=%llu gi=%u ci=%u\n", e->sequence,
                e->gpu, e->type, e->data, e->gi, e->ci);
    }
    for (unsigned i = 0; i < node->load_count; i++) {
        const struct load *l = &node->loads[i];
        fprintf(file, "load gpu=%u gi=%u graphics=%u sm=%u occupancy=%u dram=%u\n", l->gpu, l->gi,
                l->graphics, l->sm, l->occupancy, l->dram);
    }
    for (unsigned i = 0; i < node->injection_count; i++) {
        const struct injection *n = &node->injections[i];
        fprintf(file, "inject call=%s gpu=%ld code=%ld times=%ld delay_ms=%ld%s%s\n", n->call,
                n->gpu, n->code, n->times, n->delay_ms, *n->uuid != '\0' ? " uuid=" : "", n->uuid);
    }
}

nvmlReturn_t state_write(const struct node *node)
{
    const char *path = state_path();
    char name[4096];
    if (path == NULL || snprintf(name, sizeof name, "%s.%ld.new", path,
                                 (long)syscall(SYS_gettid)) >= (int)sizeof name)
        return NVML_ERROR_OPERATING_SYSTEM;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    write_all(file, node);
    bool good = ferror(file) == 0;
    good = fclose(file) == 0 && good && rename(name, path) == 0;
    if (!good)
        unlink(name);
    return good ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

/* A UUID unique on this node: from the node's seed and the instance's serial (splitmix64, twice).
 */
void make_uuid(const struct node *node, unsigned long serial, const char *prefix,
               char uuid[UUID_SIZE])
{
    uint64_t state = 0xCBF29CE484222325u, part[2];
    for (const char *c = node->seed; *c != '\0'; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001B3u;
    state ^= serial * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 2; i++) {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        part[i] = z ^ (z >> 31);
    }
    snprintf(uuid, UUID_SIZE, "%s-%08x-%04x-5%03x-%04x-%012llx", prefix, (unsigned)(part[0] >> 32),
             (unsigned)(part[0] >> 16) & 0xFFFF, (unsigned)part[0] & 0xFFF,
             ((unsigned)(part[1] >> 48) & 0x3FFF) | 0x8000,
             (unsigned long long)part[1] & 0xFFFFFFFFFFFFull);
}
