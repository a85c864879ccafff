/* Events: moments of the simulated clock. */
#include <stdlib.h>

#include "cuda_process.h"

struct CUevent_st { double at_ms; bool recorded; };

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    (void)flags;
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (event == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    return *event == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (event == NULL || current() == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *event = (struct CUevent_st){.at_ms = *clock_ms(), .recorded = true};
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult code = ready();
    return code != CUDA_SUCCESS ? code : event == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    CUresult code = ready();
    if (code != CUDA_SUCCESS)
        return code;
    if (milliseconds == NULL || begin == NULL || end == NULL || !begin->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)(end->at_ms - begin->at_ms);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    free(event);
    return ready();
}
