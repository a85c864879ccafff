/* A container's share of a card's memory, as HAMi-core limits it. Simulated: HAMi-core is a library
 * that is loaded before the driver's and answers in its place; here the driver obeys the variables.
 * Source: Project-HAMi/HAMi-core, CUDA_DEVICE_MEMORY_LIMIT and CUDA_DEVICE_MEMORY_LIMIT_<index>. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "silicon.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30 };

/* Bytes of `6144m`, `6g` and the like; 0 for none. */
static unsigned long long bytes_of(const char *text)
{
    if (text == NULL)
        return 0;
    char *unit;
    unsigned long long number = strtoull(text, &unit, 10);
    switch (*unit) {
    case 'g': case 'G': return number * GIB;
    case 'm': case 'M': return number * MIB;
    case 'k': case 'K': return number * KIB;
    default: return number;
    }
}

unsigned long long memory_limit(unsigned index)
{
    char name[64];
    snprintf(name, sizeof name, "CUDA_DEVICE_MEMORY_LIMIT_%u", index);
    const char *own = getenv(name);
    return bytes_of(own != NULL ? own : getenv("CUDA_DEVICE_MEMORY_LIMIT"));
}
