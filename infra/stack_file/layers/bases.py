"""Reads the base files of a stack file, from the first base to the stack file itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path as FilePath

from slicewright.infra.stack_file.layers.layered_source import has_bases, layered
from slicewright.infra.stack_file.layers.merge import EXTENDS
from slicewright.infra.stack_file.problem import Path
from slicewright.infra.stack_file.project import find_project
from slicewright.infra.stack_file.reading.formatting import describe, plain, shorten
from slicewright.infra.stack_file.reading.not_readable import NotReadable
from slicewright.infra.stack_file.reading.source import Source, read_single

_MOST_LEVELS = 10
"""Bases of bases. Nobody could follow more."""
_MOST_FILES = 30
"""Files of a fleet, each with its own limits of size and depth."""
_INSIDE = "a base lies in the project, so that every checkout has it"


class BaseNotReadable(NotReadable):
    """The key `extends` is wrong, or a base cannot be read. The message names the key's place."""


def read(file: FilePath, *, name: str | None = None) -> Source:
    """The fleet of a stack file, merged with its bases. Raises NotReadable."""
    return extend(read_single(file, name=name), file)


def extend(source: Source, file: FilePath) -> Source:
    """The same fleet merged with its bases; the same source if it names none. Raises NotReadable.

    file: the stack file. The paths of its bases are relative to it, and it need not exist.
    """
    if not has_bases(source):
        return source
    return layered([layer.source for layer in _layers(source, file)])


def base_files(source: Source, file: FilePath) -> list[FilePath]:
    """The paths of all bases of a fleet, none of them twice. Raises NotReadable."""
    return [layer.file for layer in _layers(source, file)[:-1]] if has_bases(source) else []


def project_of(file: FilePath) -> FilePath:
    """The directory of Pulumi.yaml around the file, or the file's own if there is none."""
    directory = file.absolute().parent
    return find_project(directory) or directory


@dataclass(frozen=True)
class _Layer:
    source: Source
    file: FilePath


def _layers(source: Source, file: FilePath) -> list[_Layer]:
    collection = _Collection(project_of(file).resolve())
    collection.add(source, file, (_real(file),))
    return collection.layers


def _real(file: FilePath) -> FilePath:
    try:
        return file.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links: reading it gives the reason
        return file.absolute()


@dataclass
class _Collection:
    project: FilePath
    layers: list[_Layer] = field(default_factory=list)
    real_files: set[FilePath] = field(default_factory=set)

    def add(self, source: Source, file: FilePath, chain: tuple[FilePath, ...]) -> None:
        """Adds the bases of a layer, then the layer. chain: the files that lead to it."""
        for path, text in _base_names(source):
            base = self._base_file(source, path, file, text)
            real = _real(base)
            if real in chain:
                name = plain(shorten(text, 100))
                raise _refused(source, path, f"{name} extends itself: remove one of the two keys")
            if len(chain) > _MOST_LEVELS:
                raise _refused(source, path, f"more than {_MOST_LEVELS} levels of base files")
            if real in self.real_files:
                continue
            self.real_files.add(real)
            if len(self.real_files) >= _MOST_FILES:
                raise _refused(source, path, f"more than {_MOST_FILES} base files; use fewer")
            self.add(_read_base(source, path, base, text), base, (*chain, real))
        self.layers.append(_Layer(source, file))

    def _base_file(self, source: Source, path: Path, file: FilePath, text: str) -> FilePath:
        """The path of a base. Raises NotReadable unless it lies inside the project."""
        base = FilePath(text)
        if base.is_absolute():
            raise _refused(
                source,
                path,
                f"{plain(shorten(text, 100))} is absolute; {_INSIDE}: write its path "
                "relative to this file",
            )
        base = file.parent / base
        if not _real(base).is_relative_to(self.project):
            raise _refused(
                source,
                path,
                f"{plain(shorten(text, 100))} lies outside the project "
                f"({self.project}); {_INSIDE}: move it there",
            )
        return base


def _base_names(source: Source) -> Iterator[tuple[Path, str]]:
    """The path of each name in the fleet, and the name."""
    if not has_bases(source):
        return
    names = source.raw[EXTENDS]
    if isinstance(names, str):
        names = [names]
        paths: list[Path] = [(EXTENDS,)]
    elif isinstance(names, list) and names:
        paths = [(EXTENDS, i) for i in range(len(names))]
    else:
        raise _refused(
            source,
            (EXTENDS,),
            f"is {describe(names)}; write the path of a file, or a list of paths",
        )
    for path, name in zip(paths, names, strict=True):
        if not isinstance(name, str) or not name.strip():
            raise _refused(source, path, f"is {describe(name)}; write the path of a file")
        yield path, name


def _read_base(source: Source, path: Path, file: FilePath, text: str) -> Source:
    try:
        base = read_single(file, name=normpath(FilePath(source.name).parent / text))
    except NotReadable as e:
        raise _refused(source, path, str(e)) from None
    if not isinstance(base.raw, dict) or [*base.raw] == ["secure"]:
        value = "an encrypted secret" if isinstance(base.raw, dict) else describe(base.raw)
        at = base.position(())
        where = f":{at[0]}:{at[1]}" if at else ""
        raise _refused(
            source,
            path,
            f"{base.name}{where}: the fleet is {value}, not a mapping; write keys of "
            "a fleet below slicewright:fleet",
        )
    return base


def _refused(source: Source, path: Path, reason: str) -> BaseNotReadable:
    at = source.position(path)
    where = f":{at[0]}:{at[1]}" if at else ""
    return BaseNotReadable(f"{source.name}{where}: {EXTENDS}: {reason}")
