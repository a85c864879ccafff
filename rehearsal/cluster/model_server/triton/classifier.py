"""The model of a rehearsal's model repository, for Triton's Python backend.

It stands for densenet_onnx of Triton's examples: the same inputs and outputs, but no trained
weights. What it computes is real: the scores are a fixed random projection of the picture, so that
every replica gives the same picture the same classes, and another picture others. What it does not
compute takes time, too: that of the device, which is simulated.

Runs in the backend's stub with numpy 1, never in the project's own environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slicewright.rehearsal.cluster.model_server.triton.gpu_time import GpuTime

SHARE: Final = "SLICEWRIGHT_REHEARSAL_GPU_SHARE"
"""Of a whole GPU's multiprocessors, of the container's device."""
TURNS: Final = "SLICEWRIGHT_REHEARSAL_GPU_TURNS"
"""The directory in which the processes on that device take turns."""
PROCESS: Final = "SLICEWRIGHT_REHEARSAL_GPU_PROCESS"
"""What tells this server from the others there."""

INPUT: Final = "data_0"
OUTPUT: Final = "fc6_1"
SIDE: Final = 224
"""Pixels; the input has three planes of SIDE x SIDE."""
CLASSES: Final = 1000
_POOLED: Final = 8
"""Each plane is averaged to so many fields in each direction before the projection."""
_SEED: Final = 121  # of DenseNet-121; any would do


def projection(numpy: Any) -> Any:
    """CLASSES x fields, the same everywhere. numpy: the module, 1.26 or later."""
    return numpy.random.RandomState(_SEED).standard_normal((CLASSES, 3 * _POOLED * _POOLED))


def scores(numpy: Any, weights: Any, picture: Any) -> Any:
    """One float32 for each class. picture: float32, 3 x SIDE x SIDE."""
    field = SIDE // _POOLED
    pooled = picture.reshape(3, _POOLED, field, _POOLED, field).mean(axis=(2, 4)).ravel()
    return (weights @ pooled).astype(numpy.float32)


class TritonPythonModel:
    """What the Python backend calls. Source: triton-inference-server/python_backend, README."""

    def initialize(self, args: dict[str, str]) -> None:
        import numpy
        import triton_python_backend_utils as backend

        self._numpy, self._backend = numpy, backend
        self._weights = projection(numpy)
        milliseconds = json.loads(args["model_config"])["parameters"]["gpu_milliseconds"]
        self._seconds = float(milliseconds["string_value"]) / 1000
        self._device = GpuTime(
            share=float(os.environ[SHARE]),
            turns=Path(os.environ[TURNS]),
            name=f"{os.environ[PROCESS]}-{args['model_instance_name']}",
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        responses = []
        for request in requests:
            picture = self._backend.get_input_tensor_by_name(request, INPUT).as_numpy()
            self._device.compute(self._seconds)
            class_scores = scores(self._numpy, self._weights, picture)
            tensor = self._backend.Tensor(OUTPUT, class_scores)
            responses.append(self._backend.InferenceResponse(output_tensors=[tensor]))
        return responses
