/* Device memory, simulated: of each allocation only what was written where is kept, so that the
 * memory of a whole GPU costs this process some hundred bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_process.h"

typedef unsigned long long word_index;

enum { MAX_ALLOCATIONS = 64, MAX_WRITES = 64, WORD = 4 };
/* Words beyond which the words of a fill are not compared one by one: none is taken for equal. */
enum { COMPARED_ONE_BY_ONE = 1 << 20 };
static const CUdeviceptr FIRST_ADDRESS = 0x700000000000ull;
static const double HOST_BYTES_PER_MS = 25e6; /* PCIe */

/* Later writes hide earlier ones. `origin`: the word of the allocation where a pattern begins. */
struct write {
    enum { FILL, PATTERN, ONE_WORD } kind;
    word_index first, words, origin;
    unsigned value; /* of a fill or a word; the seed of a pattern */
};
static struct allocation {
    int device;
    CUdeviceptr address;
    unsigned long long bytes;
    unsigned count;
    struct write writes[MAX_WRITES];
} allocations[MAX_ALLOCATIONS];
static CUdeviceptr next_address;

/* The pattern of node_agent/compute/kernels.py. */
static unsigned pattern(word_index i, unsigned seed)
{
    return ((unsigned)i * 2654435761u + (unsigned)(i >> 32)) ^ seed;
}

/* --- words --- */

static unsigned written(const struct write *write, word_index i)
{
    return write->kind == PATTERN ? pattern(i - write->origin, write->value) : write->value;
}

static unsigned word_at(const struct allocation *allocation, word_index i)
{
    for (unsigned w = allocation->count; w-- > 0;) {
        const struct write *write = &allocation->writes[w];
        if (i >= write->first && i - write->first < write->words)
            return written(write, i);
    }
    return pattern(i, 0xA5A5A5A5u); /* what an earlier owner left */
}

static bool covers(const struct write *later, const struct write *earlier)
{
    return later->first <= earlier->first &&
           later->first + later->words >= earlier->first + earlier->words;
}

static CUresult record(struct allocation *allocation, struct write write)
{
    unsigned kept = 0;
    for (unsigned w = 0; w < allocation->count; w++)
        if (!covers(&write, &allocation->writes[w]))
            allocation->writes[kept++] = allocation->writes[w];
    allocation->count = kept;
    if (kept == MAX_WRITES) {
        fprintf(stderr, "fake libcuda: more than %d writes of an allocation\n", MAX_WRITES);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    allocation->writes[allocation->count++] = write;
    return CUDA_SUCCESS;
}

static struct allocation *allocation_of(CUdeviceptr address, unsigned long long bytes)
{
    const struct cuda_device *device = current();
    for (int i = 0; device != NULL && i < MAX_ALLOCATIONS; i++) {
        struct allocation *allocation = &allocations[i];
        if (allocation->bytes != 0 && &devices[allocation->device] == device &&
            address >= allocation->address &&
            address + bytes <= allocation->address + allocation->bytes)
            return allocation;
    }
    return NULL;
}

/* --- the kernels' work --- */

CUresult put_pattern(CUdeviceptr buffer, unsigned long long words, unsigned seed, long wrong)
{
    struct allocation *allocation = allocation_of(buffer, words * WORD);
    if (allocation == NULL)
        return spoil(CUDA_ERROR_ILLEGAL_ADDRESS);
    word_index origin = (buffer - allocation->address) / WORD;
    CUresult code = record(
        allocation, (struct write){.kind = PATTERN, .first = origin, .words = words,
                                   .origin = origin, .value = seed});
    for (long i = 0; code == CUDA_SUCCESS && i < wrong && i < MAX_WRITES / 2; i++) {
        word_index at = origin + words / ((unsigned)wrong + 1) * ((unsigned)i + 1);
        code = record(allocation, (struct write){.kind = ONE_WORD, .first = at, .words = 1,
                                                 .value = word_at(allocation, at) ^ 0x10u});
    }
    return code;
}

static word_index wrong_of_write(const struct write *write, word_index first, word_index words,
                                 word_index origin, unsigned seed)
{
    if (write->kind == PATTERN && write->origin == origin)
        return write->value == seed ? 0 : words;
    if (words > COMPARED_ONE_BY_ONE)
        return words;
    word_index wrong = 0;
    for (word_index i = first; i < first + words; i++)
        wrong += written(write, i) != pattern(i - origin, seed);
    return wrong;
}

/* Wrong words of [first, first + words), of which the newest `depth` writes decide. */
static word_index wrong_words(const struct allocation *allocation, unsigned depth, word_index first,
                              word_index words, word_index origin, unsigned seed)
{
    if (words == 0)
        return 0;
    if (depth == 0)
        return words; /* never written: the pattern of another seed */
    const struct write *write = &allocation->writes[depth - 1];
    word_index last = first + words, from = write->first > first ? write->first : first,
               to = write->first + write->words < last ? write->first + write->words : last;
    if (from >= to)
        return wrong_words(allocation, depth - 1, first, words, origin, seed);
    return wrong_words(allocation, depth - 1, first, from - first, origin, seed) +
           wrong_of_write(write, from, to - from, origin, seed) +
           wrong_words(allocation, depth - 1, to, last - to, origin, seed);
}

CUresult count_wrong(CUdeviceptr buffer, unsigned long long words, unsigned seed,
                     unsigned long long *wrong)
{
    struct allocation *allocation = allocation_of(buffer, words * WORD);
    if (allocation == NULL)
        return spoil(CUDA_ERROR_ILLEGAL_ADDRESS);
    word_index origin = (buffer - allocation->address) / WORD;
    *wrong = wrong_words(allocation, allocation->count, origin, words, origin, seed);
    return CUDA_SUCCESS;
}

CUresult add_to_word(CUdeviceptr address, unsigned value)
{
    struct allocation *allocation = allocation_of(address, WORD);
    if (allocation == NULL)
        return spoil(CUDA_ERROR_ILLEGAL_ADDRESS);
    word_index at = (address - allocation->address) / WORD;
    return record(allocation, (struct write){.kind = ONE_WORD, .first = at, .words = 1,
                                             .value = word_at(allocation, at) + value});
}

/* --- the calls --- */

static unsigned long long allocated(const struct cuda_device *device)
{
    unsigned long long bytes = 0;
    for (int i = 0; i < MAX_ALLOCATIONS; i++)
        if (allocations[i].bytes != 0 && &devices[allocations[i].device] == device)
            bytes += allocations[i].bytes;
    return bytes;
}

static unsigned long long free_bytes(const struct cuda_device *device)
{
    unsigned long long used = device->held + context_bytes(device) + allocated(device);
    return used > device->memory ? 0 : device->memory - used;
}

static CUresult begin(const char *call)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    return current() == NULL ? CUDA_ERROR_INVALID_CONTEXT : fault(call, current());
}

CUresult cuMemGetInfo_v2(size_t *free_, size_t *total)
{
    CUresult code = begin("cuMemGetInfo");
    if (code != CUDA_SUCCESS)
        return code;
    if (free_ == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *free_ = (size_t)free_bytes(current());
    *total = (size_t)current()->memory;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CUresult code = begin("cuMemAlloc");
    if (code != CUDA_SUCCESS)
        return code;
    if (address == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > free_bytes(current()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (next_address == 0)
        next_address = FIRST_ADDRESS;
    for (int i = 0; i < MAX_ALLOCATIONS; i++)
        if (allocations[i].bytes == 0) {
            allocations[i] = (struct allocation){.device = (int)(current() - devices),
                                                 .address = next_address, .bytes = bytes};
            *address = next_address;
            next_address += (bytes + MIB) / MIB * MIB;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    CUresult code = begin("cuMemFree");
    if (code != CUDA_SUCCESS)
        return code;
    struct allocation *allocation = allocation_of(address, 1);
    if (allocation == NULL || allocation->address != address)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->bytes = 0;
    return CUDA_SUCCESS;
}

void free_memory(const struct cuda_device *device)
{
    for (int i = 0; i < MAX_ALLOCATIONS; i++)
        if (&devices[allocations[i].device] == device)
            allocations[i].bytes = 0;
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t words)
{
    CUresult code = begin("cuMemsetD32");
    if (code != CUDA_SUCCESS)
        return code;
    struct allocation *allocation = allocation_of(address, words * WORD);
    if (allocation == NULL || address % WORD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *clock_ms() += (double)words * WORD / bytes_per_ms(current());
    return record(allocation, (struct write){.kind = FILL, .words = words, .value = value,
                                             .first = (address - allocation->address) / WORD});
}

/* Of whole words only, which is less than the driver's. */
CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr address, size_t bytes)
{
    CUresult code = begin("cuMemcpyDtoH");
    if (code != CUDA_SUCCESS)
        return code;
    struct allocation *allocation = allocation_of(address, bytes);
    if (host == NULL || allocation == NULL || address % WORD != 0 || bytes % WORD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    word_index first = (address - allocation->address) / WORD;
    for (size_t i = 0; i < bytes / WORD; i++) {
        unsigned word = word_at(allocation, first + i);
        memcpy((char *)host + i * WORD, &word, WORD);
    }
    *clock_ms() += (double)bytes / HOST_BYTES_PER_MS;
    return CUDA_SUCCESS;
}
