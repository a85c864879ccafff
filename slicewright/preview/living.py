"""What a change does to nodes in service, as a section of the report."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.live.coming import Coming, Ending, Rolling, Shrinking
from slicewright.live.objects import UnreadObject, lines_of
from slicewright.preview.escaping import code, many, text

_NAMES = 8
_PODS = 10
_UNREAD = 10


def section(found: Coming, notes: Sequence[str], unread: Sequence[UnreadObject] = ()) -> str:
    """Empty where nothing changes for nodes in service, as far as all that matters could be read.

    unread: objects of the cluster that are left out.
    """
    parts = [
        *map(_ends, found.ending),
        *map(_rolls, found.rolling),
        *map(_shrinks, found.shrinking),
    ]
    if not parts and not unread:
        return ""
    said = [f"*{text(note)}*" for note in notes]
    said += [
        f"🔴 {text(line)}, so that more may change than is said here."
        for line in lines_of(unread, _UNREAD)
    ]
    return "\n\n".join(("### Nodes in service, by the cluster", *parts, *said))


def _ends(one: Ending) -> str:
    what = f"Pool {code(one.pool)} is {one.end}, with {many(one.nodes, 'node')}"
    if not one.pods_known:
        return f"🔴 {what}, and the pods on them end; they could not be listed."
    if not one.pods:
        return f"🟢 {what}; no pod with GPUs runs there."
    lines = [
        f"🔴 {what}, and {many(len(one.pods), 'pod')} with GPUs end{_s(len(one.pods))}. To move "
        "them first, make the new pool under another name and drain the old one "
        "(docs/how-to/day-two.md):",
        *(f"- on {code(node)}: {code(pod)}" for node, pod in one.pods[:_PODS]),
    ]
    if len(one.pods) > _PODS:
        lines.append(f"- and {many(len(one.pods) - _PODS, 'more pod')}")
    return "\n".join(lines)


def _s(count: int) -> str:
    """Of a verb."""
    return "s" if count == 1 else ""


def _rolls(one: Rolling) -> str:
    count = sum(map(len, one.waves)) + len(one.later)
    layout = f"from {code(one.before or 'none')} to {code(one.after)}"
    driver = f"to driver {code(one.driver)}" if one.driver else ""
    parts = (layout if one.before != one.after else "", driver)
    change = " and ".join(part for part in parts if part)
    if not one.waves:
        return (
            f"🔴 Pool {code(one.pool)}: no node can begin to change {change} as things are: "
            f"{_names(one.blocked)}."
            if one.blocked
            else f"🟢 Pool {code(one.pool)}: no node in service changes {change}."
        )
    lines = [
        f"🟡 Pool {code(one.pool)}: {many(count, 'node')} roll{'s' if count == 1 else ''} "
        f"{change}, in this order:",
        "",
        *(f"{n}. {_names(wave)}" for n, wave in enumerate(one.waves, start=1)),
    ]
    if one.later:
        lines.append(f"\n*and then {many(len(one.later), 'more node')}*")
    if one.blocked:
        lines.append(f"\n🔴 Cannot begin as things are: {_names(one.blocked)}.")
    lines.append(
        f"\n{_pods(one)} It takes {span(one.at_most_s)} at most, if every drain and every "
        "cut takes the whole time that it may."
    )
    lines += [
        f"- on {code(node)}: {code(blocker.pod)}: {text(blocker.why)}"
        for node, blocker in one.unevictable[:_PODS]
    ]
    if len(one.unevictable) > _PODS:
        lines.append(f"- and {many(len(one.unevictable) - _PODS, 'more pod')}")
    return "\n".join(lines)


def _pods(one: Rolling) -> str:
    if not one.pods_known:
        return "How many pods it evicts is not known: they could not be listed."
    evicted = f"{many(one.evicted, 'pod')} {'is' if one.evicted == 1 else 'are'} evicted"
    if not one.unevictable:
        return f"{evicted}, as things are now."
    return f"{evicted}, and {many(len(one.unevictable), 'pod')} cannot be now and would hold it:"


def _shrinks(one: Shrinking) -> str:
    fewest, most = one.pods_that_end
    if not one.pods_known:
        ends = "the pods on them end"
    elif fewest == most:
        ends = f"{many(most, 'pod')} with GPUs end with {'it' if one.going == 1 else 'them'}"
    else:
        ends = f"{fewest} to {most} pods with GPUs end with {'it' if one.going == 1 else 'them'}"
    return (
        f"🔴 Pool {code(one.pool)} has {many(one.nodes, 'node')} and may have {one.most}: "
        f"{many(one.going, 'node')} of the cloud's choice {'goes' if one.going == 1 else 'go'}, "
        f"undrained, and {ends}."
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(code, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")


def span(seconds: float) -> str:
    """`45 min`, `2 h`, `3 h 30 min`; rounded up to minutes."""
    hours, minutes = divmod(-(-int(seconds) // 60), 60)
    parts = [f"{hours} h"] if hours else []
    return " ".join([*parts, *([f"{minutes} min"] if minutes or not hours else [])])
