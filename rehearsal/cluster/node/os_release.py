"""/etc/os-release of a simulated node."""

from __future__ import annotations


def os_release(image: str) -> str:
    """The file's text, from the node's osImage, which is its PRETTY_NAME."""
    system, version = _system(image)
    lines = [f'PRETTY_NAME="{image}"', f"ID={system}", f'VERSION_ID="{version}"' if version else ""]
    return "".join(f"{line}\n" for line in lines if line)


def read(text: str) -> dict[str, str]:
    """Its fields."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _system(image: str) -> tuple[str, str]:
    """ID and VERSION_ID."""
    words = image.split()
    version = next((word for word in words if word[:1].isdigit()), "")
    if image.startswith("Amazon Linux"):
        return "amzn", version.split(".")[0]
    if image.startswith("Container-Optimized OS"):
        return "cos", version
    if image.startswith("Ubuntu"):
        return "ubuntu", ".".join(version.split(".")[:2])
    return (words[0].lower() if words else "linux"), version
