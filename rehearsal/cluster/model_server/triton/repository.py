"""A directory of models, as Triton reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.model_server.triton import classifier

DEFAULT_MODEL: Final = "densenet_onnx"
"""Of Triton's own examples, and of the published walkthrough."""
GPU_MILLISECONDS: Final = 10.0
"""What a request takes on a whole GPU, alone. Chosen: only ratios between devices mean anything."""
_LABELS: Final = "labels.txt"

_CONFIG = """\
# Simulated: no trained weights, and the time on the GPU is simulated.
name: "{name}"
backend: "python"
max_batch_size: 0
input [
  {{ name: "{input}" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, {side}, {side} ] }}
]
output [
  {{ name: "{output}" data_type: TYPE_FP32 dims: [ {classes} ] label_filename: "{labels}" }}
]
# No CUDA here: the model runs on the processor, and waits as long as the device would take.
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
parameters {{ key: "gpu_milliseconds" value {{ string_value: "{milliseconds:g}" }} }}
"""
_MODEL = f"from {classifier.__name__} import TritonPythonModel  # noqa: F401\n"


def label(number: int) -> str:
    """Of one class. No names of things: nothing here has learnt to tell them apart."""
    return f"SIMULATED CLASS {number}"


def write(
    directory: Path, names: Sequence[str], *, gpu_milliseconds: float = GPU_MILLISECONDS
) -> None:
    """Makes `directory` a repository with one model for each name. Raises OSError."""
    for name in names:
        model = directory / name
        (model / "1").mkdir(parents=True, exist_ok=True)
        (model / "config.pbtxt").write_text(
            _CONFIG.format(
                name=name,
                input=classifier.INPUT,
                output=classifier.OUTPUT,
                side=classifier.SIDE,
                classes=classifier.CLASSES,
                labels=_LABELS,
                milliseconds=gpu_milliseconds,
            )
        )
        labels = "".join(f"{label(number)}\n" for number in range(classifier.CLASSES))
        (model / _LABELS).write_text(labels)
        (model / "1" / "model.py").write_text(_MODEL)
