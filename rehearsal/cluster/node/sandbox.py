"""Builds the file system of a simulated node around this process, then executes a program in it.

Run by launcher.py as `python -I -S sandbox.py FD`; FD is a file with the JSON of what to start.
Imports little of the standard library, because every start pays for it. Exits with 126 if the file
system cannot be built, with 127 if the program cannot be executed; the reason is on stderr.
"""

# Importing pathlib would double the time that a start takes.
# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH123, PTH208, PTH211

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import stat
import sys
from typing import Any, NoReturn

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_MOVE, _MS_REC, _MS_PRIVATE = (
    1,
    2,
    4,
    32,
    4096,
    8192,
    16384,
    1 << 18,
)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAP_SYS_ADMIN = 21
_CAPABILITIES_V3 = 0x20080522
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_AT_RECURSIVE, _MOUNT_ATTR_RDONLY, _SYS_MOUNT_SETATTR = 0x8000, 1, 442
_AT_FDCWD = -100

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "gai.conf", "group", "hosts", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime",
    "mime.types", "nsswitch.conf", "os-release", "passwd", "pki", "protocols",
    "resolv.conf", "services", "ssl",
)  # fmt: skip
# The driver's own: /proc/driver/nvidia/capabilities/mig/{config,monitor}, DeviceFileMode.
_DEVICE_MODES = {"nvidia-caps/nvidia-cap1": 0o400, "nvidia-caps/nvidia-cap2": 0o444}
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROC = (
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "self",
    "stat",
    "sys",
    "thread-self",
    "uptime",
    "version",
)

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    pass


def _check(result: int, what: str) -> None:
    if result != 0:
        raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(
        _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]),
        f"mount {source} on {target}",
    )


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def _make_read_only(target: str, *, recursive: bool) -> None:
    attributes = _MountAttr(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    if (
        _libc.syscall(
            _SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), flags, ctypes.byref(attributes), 32
        )
        == 0
    ):
        return
    # Kernels before 5.12, one mount at a time; flags that the file system has must be repeated.
    kept = os.statvfs(target).f_flag & (_MS_NOSUID | _MS_NODEV | 8)
    _mount("none", target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


class Root:
    """A file system under construction at `at`, of directories on its tmpfs and bind mounts."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._own = {"/"}
        self._on_tmpfs = [at]
        self._sealed: list[str] = []
        _mount("tmpfs", at, "tmpfs", _MS_NOSUID, "mode=0755,size=512m")

    def directory(self, path: str) -> None:
        """Makes the directory `path` if it does not exist."""
        path = self._opened(path)
        if not os.path.isdir(self._at + path):
            os.mkdir(self._at + path)
            self._own.add(path)

    def bind(self, source: str, target: str, *, read_only: bool) -> None:
        """Binds `source` of the host to `target`, even if that is inside another bind mount."""
        try:
            is_directory = stat.S_ISDIR(os.stat(source).st_mode)
        except OSError as e:
            raise Failed(f"cannot bind {source} to {target}: {e.strerror}") from e
        target = self._opened(target)
        if is_directory:
            if not os.path.isdir(self._at + target):
                os.mkdir(self._at + target)
        elif not os.path.exists(self._at + target):
            os.close(os.open(self._at + target, os.O_CREAT | os.O_WRONLY, 0o644))
        self._own.discard(target)
        _mount(source, self._at + target, None, _MS_BIND | _MS_REC)
        if read_only:
            _make_read_only(self._at + target, recursive=True)

    def file(self, path: str, mode: int) -> None:
        """`path` is an empty file; it stands for a device node, which only an owner of the devices
        could make.
        """
        os.close(os.open(self._at + self._opened(path), os.O_CREAT | os.O_WRONLY, mode))

    def link(self, target: str, path: str) -> None:
        """Makes `path` a symbolic link to `target`."""
        os.symlink(target, self._at + self._opened(path))

    def tmpfs(self, path: str, options: str) -> None:
        self.directory(path)
        _mount("tmpfs", self._at + path, "tmpfs", _MS_NOSUID | _MS_NODEV, options)

    def sealed(self, path: str) -> None:
        """Makes `path` a directory to which nobody can add after `freeze`, such as /proc."""
        self.tmpfs(path, "mode=0755,size=1m")
        self._own.add(path)
        self._sealed.append(self._at + path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._at + path)

    def freeze(self, *, read_only_root: bool) -> None:
        """Ends the construction. Without `read_only_root` the directories on tmpfs stay writable:
        they are what a container has as a layer of its own above its image's.
        """
        for path in (*self._sealed, *(self._on_tmpfs if read_only_root else ())):
            _make_read_only(path, recursive=False)

    def _opened(self, path: str) -> str:
        """`path` with links resolved; afterwards its parent exists and can be written to."""
        for _ in range(40):
            restart = None
            current = ""
            parts = [part for part in path.split("/") if part]
            for i, part in enumerate(parts):
                parent, current = current or "/", f"{current}/{part}"
                full = self._at + current
                if os.path.islink(full):
                    rest = "/".join(parts[i + 1 :])
                    restart = os.path.normpath(os.path.join(parent, os.readlink(full), rest))
                    break
                if os.path.lexists(full):
                    continue
                if parent not in self._own:
                    self._unbind(parent)
                if i < len(parts) - 1:
                    os.mkdir(full)
                    self._own.add(current)
            if restart is None:
                return "/" + "/".join(parts)
            path = restart
        raise Failed(f"too many links in {path}")

    def _unbind(self, directory: str) -> None:
        """Replaces a bound directory with a tmpfs that has the same children, to add to it."""
        full = self._at + directory
        before = os.open(full, os.O_PATH | os.O_DIRECTORY)
        try:
            children = sorted(os.scandir(f"/proc/self/fd/{before}"), key=lambda child: child.name)
            _mount("tmpfs", full, "tmpfs", _MS_NOSUID, "mode=0755,size=1m")
            for child in children:
                new = f"{full}/{child.name}"
                if child.is_symlink():
                    os.symlink(os.readlink(f"/proc/self/fd/{before}/{child.name}"), new)
                    continue
                if child.is_dir():
                    os.mkdir(new)
                else:
                    os.close(os.open(new, os.O_CREAT | os.O_WRONLY, 0o644))
                _mount(f"/proc/self/fd/{before}/{child.name}", new, None, _MS_BIND | _MS_REC)
        finally:
            os.close(before)
        self._own.add(directory)
        self._on_tmpfs.append(full)


def _isolate(*, rootless: bool) -> None:
    if not rootless:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare of the mount namespace")
    else:
        uid, gid = os.geteuid(), os.getegid()
        _check(
            _libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare of the user and mount namespaces"
        )
        _map_user(0, 0, uid, gid)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def _map_user(inner_uid: int, inner_gid: int, uid: int, gid: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner_uid} {uid} 1"),
        ("gid_map", f"{inner_gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _build(spec: dict[str, Any]) -> Root:
    node: str = spec["node_root"]
    os.makedirs(spec["mount_point"], exist_ok=True)
    root = Root(spec["mount_point"])
    # First, because host_paths may be in /tmp.
    if spec["read_only_root"]:
        root.directory("/tmp")  # noqa: S108 - the image's, to which nobody can write
    else:
        root.tmpfs("/tmp", "mode=1777,size=256m")  # noqa: S108 - the program's own, made here
    # Open to all, unlike an image's: this machine's interpreter may lie in it.
    root.directory("/root")
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):
            root.link(os.readlink(f"/{name}"), f"/{name}")
        elif os.path.isdir(f"/{name}"):
            root.bind(f"/{name}", f"/{name}", read_only=True)
    for name in _ETC:
        if os.path.islink(f"/etc/{name}"):
            root.link(os.readlink(f"/etc/{name}"), f"/etc/{name}")
        elif os.path.exists(f"/etc/{name}"):
            root.bind(f"/etc/{name}", f"/etc/{name}", read_only=True)
    shown: list[str] = [f"/{name}" for name in _SYSTEM]
    for path in sorted(spec["host_paths"]):
        if os.path.exists(path) and not any(
            path == other or path.startswith(f"{other}/") for other in shown
        ):
            root.bind(path, path, read_only=True)
            shown.append(path)
    _kernel(root, node, spec)
    for name, read_only in (("etc", True), ("run", False), ("home", True)):
        root.directory(f"/{name}")
        for child in sorted(
            os.listdir(f"{node}/{name}") if os.path.isdir(f"{node}/{name}") else ()
        ):
            root.bind(f"{node}/{name}/{child}", f"/{name}/{child}", read_only=read_only)
    root.directory("/var/lib")
    root.bind(f"{node}/var/lib/kubelet", "/var/lib/kubelet", read_only=False)
    root.link("/run", "/var/run")
    if os.path.exists(f"{node}/usr/share/misc/pci.ids"):
        # Where programs look first; or second, if the first would mean rebuilding /usr/share.
        target = (
            "/usr/share/misc/pci.ids"
            if os.path.exists("/usr/share/misc/pci.ids")
            else "/usr/local/share/pci.ids"
        )
        root.bind(f"{node}/usr/share/misc/pci.ids", target, read_only=True)
    root.directory("/opt")
    # A working directory that the image lacks is made by runc (libcontainer/rootfs_linux.go,
    # prepareRootfs). One in a volume must be in the volume.
    root.directory(spec["cwd"])
    for bind in spec["binds"]:
        root.bind(bind["source"], bind["target"], read_only=bind["read_only"])
    # With a single mapped user everybody owns the root, so that only a read-only one refuses what
    # an image's root, which belongs to user 0, refuses any other user.
    shared_owner = spec["rootless"] and spec["uid"] != 0
    root.freeze(read_only_root=spec["read_only_root"] or shared_owner)
    return root


def _kernel(root: Root, node: str, spec: dict[str, Any]) -> None:
    """/proc, /sys and /dev: the node's files where it has any, else a few of the host's."""
    root.bind("/proc", "/.proc", read_only=False)
    links = {name: f"/.proc/{name}" for name in (*_PROC, str(os.getpid()))}
    links |= {"mounts": "self/mounts", "net": "self/net"}
    if spec["processes"] is None:
        root.sealed("/proc")
        for name, target in links.items():
            root.link(target, f"/proc/{name}")
        for child in sorted(os.listdir(f"{node}/proc")):
            root.bind(f"{node}/proc/{child}", f"/proc/{child}", read_only=True)
    else:
        # One directory for all containers of a pod, in which each sees those that start later.
        root.bind(f"{node}/proc", "/.node-proc", read_only=True)
        links |= {child: f"/.node-proc/{child}" for child in os.listdir(f"{node}/proc")}
        for name, target in links.items():
            with contextlib.suppress(FileExistsError):
                os.symlink(target, f"{spec['processes']}/{name}")
        root.bind(spec["processes"], "/proc", read_only=True)
    root.bind(f"{node}/sys", "/sys", read_only=True)
    for name in _DEVICES:
        root.bind(f"/dev/{name}", f"/dev/{name}", read_only=False)
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        root.link(target, f"/dev/{name}")
    root.tmpfs("/dev/shm", "mode=1777,size=64m")  # noqa: S108
    if spec["silicon"] is not None:
        root.bind(spec["silicon"], "/dev/simulated-silicon", read_only=False)
    if spec["privileged"] and spec["gpu_devices"]:
        # Writable: NVML has nodes made here for the instances that a privileged process creates.
        root.tmpfs("/dev/nvidia-caps", "mode=0755,size=1m")
    for name in spec["gpu_devices"]:
        root.file(f"/dev/{name}", _DEVICE_MODES.get(name, 0o444))


def _enter(at: str) -> None:
    os.chdir(at)
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is not None and _libc.syscall(number, b".", b".") == 0:
        _check(_libc.umount2(b".", _MNT_DETACH), "leaving the host's file system")
    elif ctypes.get_errno() in (0, errno.EINVAL):
        # pivot_root is not possible where the host's root is its initramfs.
        _mount(at, "/", None, _MS_MOVE)
        os.chroot(".")
    else:
        raise Failed(f"pivot_root: {os.strerror(ctypes.get_errno())}")
    os.chdir("/")


def _become(uid: int, gid: int, *, rootless: bool, privileged: bool) -> None:
    if not privileged:
        _libc.prctl(_PR_CAPBSET_DROP, _CAP_SYS_ADMIN, 0, 0, 0)
    if uid != 0 and rootless:
        # Only one user is mapped: a second user namespace maps it to the wanted uid, and exec then
        # drops its capabilities.
        _check(_libc.unshare(_CLONE_NEWUSER), "unshare of the user namespace")
        _map_user(uid, gid, 0, 0)
    elif uid != 0:
        for capability in range(64):
            if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                break
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def as_after_exec() -> None:
    """What executing a program does to a process with an ordinary user: it has no capabilities,
    and its own files in /proc. For one that goes on as it is.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "dropping capabilities")
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "access to its own files in /proc")


def die_with_parent(parent: int) -> None:
    # After the change of user, which clears it.
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "parent death signal")
    if os.getppid() != parent:
        os._exit(137)


def _probe(at: str, *, rootless: bool) -> None:
    """Tries everything that a start needs of the kernel, on an empty root."""
    _isolate(rootless=rootless)
    root = Root(at)
    root.bind("/proc", "/.proc", read_only=False)
    root.bind("/usr", "/usr", read_only=True)
    root.freeze(read_only_root=True)
    _enter(at)


def enter(spec: dict[str, Any]) -> None:
    """Makes this process one of the node: its files, its user, and its end with its parent.

    Does not return where that fails.
    """
    try:
        _become_of_node(spec)
    except (Failed, OSError) as e:
        _not_built(e)


def _become_of_node(spec: dict[str, Any]) -> None:
    rootless = spec["rootless"]
    _isolate(rootless=rootless)
    _build(spec)
    _enter(spec["mount_point"])
    _become(spec["uid"], spec["gid"], rootless=rootless, privileged=spec["privileged"])
    die_with_parent(spec["parent"])


def execute(spec: dict[str, Any]) -> NoReturn:
    """Becomes the program."""
    try:
        os.chdir(spec["cwd"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except OSError as e:
        print(
            f"rehearsal: cannot run {spec['argv'][0]} in {spec['cwd']}: {e.strerror}",
            file=sys.stderr,
            flush=True,
        )
        os._exit(127)


def _not_built(why: Exception) -> NoReturn:
    """Exits."""
    print(f"rehearsal: the node's file system cannot be built: {why}", file=sys.stderr, flush=True)
    os._exit(126)


def main() -> None:
    if sys.argv[1] == "--probe":
        try:
            _probe(sys.argv[2], rootless=sys.argv[3:] == ["rootless"])
        except (Failed, OSError) as e:
            _not_built(e)
        return
    with open(int(sys.argv[1]), "rb") as file:
        spec = json.loads(file.read())
    enter(spec)
    execute(spec)


if __name__ == "__main__":
    main()
