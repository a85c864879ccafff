"""The driver's kernel module on a simulated node whose driver comes from a container.

NVIDIA's driver container loads and unloads it: here its stand-in asks the kubelet stand-in, by a
pipe in /run/nvidia, which the container mounts. What the kernel answers is a file beside the pipe.
"""

from __future__ import annotations

from pathlib import Path

PROGRAM = "nvidia-driver"
PIPE = "run/nvidia/simulated-kernel"
DONE = "done"
SCRIPT = f"""\
kernel() {{
  echo "$$ $*" > /{PIPE}
  until [ -e "/{PIPE}.$$" ]; do sleep 0.1; done
  answer=$(cat "/{PIPE}.$$")
  rm -f "/{PIPE}.$$"
  [ "$answer" = {DONE} ] || {{ echo "$answer" >&2; return 1; }}
}}
[ "$1" = init ] || {{ echo "simulated {PROGRAM}: no command $*" >&2; exit 2; }}
kernel unload || exit 1
kernel load "$DRIVER_VERSION" || exit 1
echo "simulated: no kernel module is built; driver $DRIVER_VERSION is loaded"
trap 'kernel unload && exit 0' TERM INT
while :; do sleep infinity & wait $!; done
"""
"""`nvidia-driver init` of NVIDIA's driver image, which also unloads before it ends.

Source: NVIDIA/gpu-driver-container, ubuntu22.04/nvidia-driver.
"""


def ask(root: Path, asker: int, request: str) -> Path:
    """Asks the kernel of the node whose files are below `root`; the file of the answer."""
    with (root / PIPE).open("w") as pipe:
        pipe.write(f"{asker} {request}\n")
    return _answer_of(root, str(asker))


def answer(root: Path, asker: str, text: str) -> None:
    written = _answer_of(root, asker)
    new = written.with_name(f".{written.name}")
    new.write_text(text)
    new.replace(written)


def _answer_of(root: Path, asker: str) -> Path:
    return root / f"{PIPE}.{asker}"
