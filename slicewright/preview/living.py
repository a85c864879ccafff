"""The report's section about the effects of a change on nodes in service."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.live.coming import Coming, Ending, Rolling, Shrinking
from slicewright.live.objects import UnreadObject, lines_of
from slicewright.preview.escaping import code, many, text

_NAMES = 8
_PODS = 10
_UNREAD = 10


def section(effects: Coming, notes: Sequence[str], unread: Sequence[UnreadObject] = ()) -> str:
    """Returns the section, or empty if nothing changes for nodes in service and all was readable.

    `unread` has the objects of the cluster that are left out.
    """
    parts = [
        *map(_ends, effects.ending),
        *map(_rolls, effects.rolling),
        *map(_shrinks, effects.shrinking),
    ]
    if not parts and not unread:
        return ""
    remarks = [f"*{text(note)}*" for note in notes]
    remarks += [
        f"🔴 {text(line)}, so more may change than this report shows."
        for line in lines_of(unread, _UNREAD)
    ]
    return "\n\n".join(("### Nodes in service, by the cluster", *parts, *remarks))


def _ends(change: Ending) -> str:
    subject = f"Pool {code(change.pool)} is {change.end}, with {many(change.nodes, 'node')}"
    if not change.pods_known:
        return f"🔴 {subject}, and the pods on them end; they could not be listed."
    if not change.pods:
        return f"🟢 {subject}; no pod with GPUs runs there."
    lines = [
        f"🔴 {subject}, and {many(len(change.pods), 'pod')} with GPUs "
        f"end{_s(len(change.pods))}. To move them first, create the new pool under another name "
        "and drain the old one "
        "(docs/how-to/day-two.md):",
        *(f"- on {code(node)}: {code(pod)}" for node, pod in change.pods[:_PODS]),
    ]
    if len(change.pods) > _PODS:
        lines.append(f"- and {many(len(change.pods) - _PODS, 'more pod')}")
    return "\n".join(lines)


def _s(count: int) -> str:
    """Returns the ending of a verb in the present tense."""
    return "s" if count == 1 else ""


def _rolls(change: Rolling) -> str:
    count = sum(map(len, change.waves)) + len(change.later)
    layout = f"from {code(change.before or 'none')} to {code(change.after)}"
    driver = f"to driver {code(change.driver)}" if change.driver else ""
    parts = (layout if change.before != change.after else "", driver)
    difference = " and ".join(part for part in parts if part)
    if not change.waves:
        return (
            f"🔴 Pool {code(change.pool)}: no node can start changing {difference} at the moment: "
            f"{_names(change.blocked)}."
            if change.blocked
            else f"🟢 Pool {code(change.pool)}: no node in service changes {difference}."
        )
    lines = [
        f"🟡 Pool {code(change.pool)}: {many(count, 'node')} roll{'s' if count == 1 else ''} "
        f"{difference}, in this order:",
        "",
        *(f"{n}. {_names(wave)}" for n, wave in enumerate(change.waves, start=1)),
    ]
    if change.later:
        lines.append(f"\n*and then {many(len(change.later), 'more node')}*")
    if change.blocked:
        lines.append(f"\n🔴 Cannot start at the moment: {_names(change.blocked)}.")
    lines.append(
        f"\n{_pods(change)} It takes at most {span(change.at_most_s)}, if every drain and every "
        "partitioning takes its whole time limit."
    )
    lines += [
        f"- on {code(node)}: {code(blocker.pod)}: {text(blocker.why)}"
        for node, blocker in change.unevictable[:_PODS]
    ]
    if len(change.unevictable) > _PODS:
        lines.append(f"- and {many(len(change.unevictable) - _PODS, 'more pod')}")
    return "\n".join(lines)


def _pods(change: Rolling) -> str:
    if not change.pods_known:
        return "The number of evicted pods is unknown: they could not be listed."
    evicted = f"{many(change.evicted, 'pod')} {'is' if change.evicted == 1 else 'are'} evicted"
    if not change.unevictable:
        return f"{evicted}, as of now."
    blocking = many(len(change.unevictable), "pod")
    return f"{evicted}, and {blocking} cannot be evicted now and would block it:"


def _shrinks(change: Shrinking) -> str:
    fewest, most = change.pods_that_end
    if not change.pods_known:
        ends = "the pods on them end"
    elif fewest == most:
        ends = f"{many(most, 'pod')} with GPUs end with {'it' if change.going == 1 else 'them'}"
    else:
        ends = f"{fewest} to {most} pods with GPUs end with {'it' if change.going == 1 else 'them'}"
    return (
        f"🔴 Pool {code(change.pool)} has {many(change.nodes, 'node')} and may have {change.most}: "
        f"the cloud ends {many(change.going, 'node')} of its choice without a drain, and {ends}."
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(code, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")


def span(seconds: float) -> str:
    """Returns `45 min`, `2 h` or `3 h 30 min`, rounded up to minutes."""
    hours, minutes = divmod(-(-int(seconds) // 60), 60)
    parts = [f"{hours} h"] if hours else []
    return " ".join([*parts, *([f"{minutes} min"] if minutes or not hours else [])])
