"""What is said of a NaN or an infinity: why an operation made it, and the trace as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.workbench.nan.nan_values import BadElements

_GROWING = frozenset(
    "exp square power multiply add subtract sum prod cumsum cumprod dot matmul batch_dot conv "
    "convolve mean cast".split()
)


def holds(nan: int, inf: int) -> str:
    """`NaN 3`, `Inf 1`, `NaN 3, Inf 1`."""
    parts = [f"{word} {count}" for word, count in (("NaN", nan), ("Inf", inf)) if count]
    return ", ".join(parts)


def what(row: JsonObject) -> str:
    """`a NaN`, `an infinity`, `NaN and infinities`."""
    if row["nan"] and row["inf"]:
        return "NaN and infinities"
    if row["nan"]:
        return "NaN"
    return "an infinity" if row["inf"] == 1 else "infinities"


def why(op: str, operands: list[JsonObject], found: BadElements, dtype: str) -> str:
    """What about the operands made it, in one line; '' where nothing is certain."""
    values = [_number(operand.get("value")) for operand in operands]
    first = values[0] if values else None
    second = values[1] if len(values) > 1 else None
    if op == "loop":
        return "a step of the loop made it"
    if op == "log" and first is not None and first <= 0:
        return "log of 0 is -Inf" if first == 0 else "log of a negative number is NaN"
    if op in ("sqrt", "rsqrt") and first is not None and first < 0:
        return "the square root of a negative number is NaN"
    if op in ("divide", "mod", "floordiv") and second == 0:
        return "0 / 0 is NaN" if first == 0 else "a number divided by 0 is infinite"
    if op in ("reciprocal", "rsqrt") and first == 0:
        return "1 / 0 is infinite"
    if op == "power" and first is not None and second is not None:
        if first < 0 and second != int(second):
            return "a negative number to a power that is not whole is NaN"
        if first == 0 and second < 0:
            return "0 to a negative power is infinite"
    if found.inf and op in _GROWING:
        return f"the result is larger than {dtype} can hold"
    return ""


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


# ------------------------------------------------------------------ the trace as text


def verdict(data: JsonObject) -> str:
    """The answer in one line."""
    state, name = data.get("state"), data.get("name", "")
    if state == "clean":
        count = data.get("operations", 0)
        return f"{name}: no NaN and no infinity in {count} operations"
    if state != "found":
        return f"{name}: {data.get('error', 'not traced')}"
    turn = data.get("turn")
    if turn is not None:
        return f"NaN made by {maker(turn)}{at(turn)}: {turned(data, turn)}"
    if data.get("source"):
        if data["source"] == "placeholder":
            return f"the value fed to {data['name_of']} contains {what(data)}"
        return f"{data['source']} {data['name_of']} already contains {what(data)}"
    return f"{what(data)} made by {maker(data)}{at(data)}"


_SIGNS = {"multiply": "*", "divide": "/", "add": "+", "subtract": "-"}


def turned(data: JsonObject, turn: JsonObject) -> str:
    """How infinities became NaN: `log(0) * 0`, or `Inf - Inf, the Inf from exp(100)`.

    `data` is what made the infinities, `turn` what read them.
    """
    values = [str(operand.get("value", "")) for operand in turn["operands"]]
    inner, sign = formula(data), _SIGNS.get(turn["op"], "")
    held = values[turn["of"]] if turn.get("of") is not None and turn["of"] < len(values) else ""
    source = f", the {held or 'infinity'} from {inner}{at(data)}" if inner else ""
    if not sign or len(values) != 2 or not all(values):
        of = "products of 0 and infinities" if turn["op"] in _PRODUCTS else "Inf - Inf"
        return f"{of} among what it adds up{source}"
    if turn["direct"] and inner and held:
        values[turn["of"]] = f"({inner})" if " " in inner else inner
        if sign == "*" and turn["of"] == 1:
            values.reverse()
        return f" {sign} ".join(values)
    return f" {sign} ".join(values) + source


_PRODUCTS = frozenset("dot matmul batch_dot conv convolve".split())


def formula(row: JsonObject) -> str:
    """What an operation made of which values: `log(0)`, `1 / 0`; '' where these are not known.

    >>> formula({"op": "divide", "operands": [{"value": "1"}, {"value": "0"}]})
    '1 / 0'
    """
    values = [str(operand.get("value", "")) for operand in row.get("operands") or ()]
    if not values or not all(values) or row.get("source"):
        return ""
    sign = _SIGNS.get(row["op"])
    if sign and len(values) == 2:
        return f" {sign} ".join(values)
    return f"{row['op']}({', '.join(values)})"


def maker(row: JsonObject) -> str:
    """`log`, `log in categorical_crossentropy`, or `log in step 3 of rnn`."""
    op, function = row["op"], row["called"]
    made = op if op == function else f"{op} in {function}" if function else op
    return f"{made} in step {row['step']} of {row['loop']}" if row.get("step") else made


def at(row: JsonObject) -> str:
    """` at In [3] line 2`."""
    return f" at {row['place']}" if row.get("place") else ""


def lines(data: JsonObject) -> list[str]:
    """The whole trace, as lines for a pager or a prompt."""
    said = [verdict(data)]
    if data.get("state") == "found":
        said += _origin(data)
        said += _mended(data.get("mended"))
        said += _path(data)
    notes = list(data.get("notes") or ())
    if data.get("fed"):
        said += ["", f"run again on {', '.join(data['fed'])}; nothing was stored"]
    return said + [f"note: {note}" for note in notes]


def _origin(data: JsonObject) -> list[str]:
    said = []
    turn = data.get("turn") or {}
    if turn.get("line") and turn["line"] != data.get("line"):
        said.append(f"  {turn['line']}")
    if turn:
        said += ["", f"the infinity came from {maker(data)}{at(data)}"]
    if data.get("line"):
        said.append(f"  {data['line']}")
    if data.get("why"):
        said.append(f"  {data['why']}")
    place = ", ".join(str(entry) for entry in data["index"])
    first = f"first at [{place}]: {data['value']}" if data["index"] else f"it is {data['value']}"
    counts = holds(data["nan"], data["inf"])
    said += ["", f"result   {data['spec']}  {counts}  {first}"]
    for number, operand in enumerate(data.get("operands") or (), 1):
        said += _operand(f"input {number}", operand)
    return said


def _operand(label: str, row: JsonObject) -> list[str]:
    where = f", {row['place']}" if row["place"] else ""
    named = row["kind"] if row["kind"] != "tensor" else row["op"]
    called = "" if named == row["name"] else f" {row['name']}"
    words = f"{label}  {row['spec']}  {named}{called}{where}"
    values = []
    if row.get("min") is not None:
        mark = "~" if row.get("sampled") else ""
        values.append(f"{mark}[{describe.number(row['min'])} .. {describe.number(row['max'])}]")
    if "value" in row:
        index = ", ".join(str(entry) for entry in row["index"])
        values.append(f"at [{index}]: {row['value']}" if index else f"is {row['value']}")
    return [words, f"         {'  '.join(values)}"] if values else [words]


def _mended(data: JsonObject | None) -> list[str]:
    """What is found with finite variables, where those of the call are gone."""
    if data is None:
        return []
    said = ["", "with 0 for NaN and Inf in the variables:", f"  {verdict(data)}"]
    said += [f"  {line}" for line in (data.get("line"), data.get("why")) if line]
    return said


def _path(data: JsonObject) -> list[str]:
    path, reaches = data.get("path") or [], data.get("reaches")
    said = []
    if path:
        said += ["", "from there"]
        middle = len(path) // 2
        for number, row in enumerate(path):
            if data.get("cut") and number == middle:
                said.append(f"  ... {data['cut']} more")
            said.append(f"  {maker(row)}{at(row)}  {row['spec']}  {row['holds']}")
    if reaches == "":
        said += ["", "it does not reach a result: something behind it chose other values"]
    elif reaches == "update":
        said += ["", "the results are finite, but new values of variables are not"]
    if data.get("others", 0) > 0:
        count = data["others"]
        those = "operations gave NaN or Inf of their" if count > 1 else "operation gave one of its"
        said += ["", f"{count} later {those} own"]
    return said
