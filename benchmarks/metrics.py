"""How easily a stranger can read the source: counts over src, beside what we aim at.

Run `make metrics`. Every count but the last reads the files with `ast` and imports nothing. The
last count runs `fedfb run` on a small CSV in this process, and follows its calls.
"""

import ast
import contextlib
import io
import random
import re
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src"
VAGUE = {"found", "one", "told", "said", "shown", "known", "seen", "own", "asked", "kept"}
VAGUE |= {"there", "here", "given"}
"""Participles, pronouns and adverbs: names that do not say what the value is."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""No calls to a reader, and from Python 3.12 on mostly no frames either."""

SUBSCRIPT = re.compile(r"""(?<=[\w\])])\[["']\w+["']\]""")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A source file: its dotted name, its folder, its text and its syntax tree."""

    name: str
    package: str
    path: Path
    text: str
    tree: ast.Module


class Metric(NamedTuple):
    """A row of the table."""

    name: str
    value: str
    aim: str


def read_modules(source: Path) -> list[Module]:
    modules = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        package = parts[:-1]
        name = ".".join(package if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules.append(Module(name, ".".join(package), path, text, ast.parse(text)))
    return modules


def imports_of(module: Module, names: set[str]) -> set[str]:
    """Return the modules that one module imports, anywhere in its file.

    Args:
        module: the file that imports.
        names: dotted names of all modules. `from a import b` counts as `a.b` if that is a module.
    """
    imported = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = module.package.split(".")
            base = package[: len(package) + 1 - node.level] if node.level else []
            home = ".".join([*base, *filter(None, [node.module])])
            inside = {f"{home}.{alias.name}" for alias in node.names}
            imported |= (inside & names) or {home}
    return (imported & names) - {module.name}


def single_importers(modules: list[Module]) -> list[str]:
    """Return the modules that exactly one other module imports; packages themselves are no such."""
    names = {module.name for module in modules}
    importers = Counter(name for module in modules for name in imports_of(module, names))
    files = {module.name for module in modules if module.path.name != "__init__.py"}
    return sorted(name for name in files if importers[name] == 1)


def string_subscripts(modules: list[Module], packages: tuple[str, ...]) -> int:
    """Count subscripts such as `result["accuracy"]` in some packages."""
    parts = [f".{package}." for package in packages]
    chosen = [m for m in modules if any(part in f".{m.package}." for part in parts)]
    return sum(len(SUBSCRIPT.findall(module.text)) for module in chosen)


def bindings(tree: ast.Module) -> Iterator[str]:
    """Yield each name that is assigned, is a parameter or a loop variable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def functions_of(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def parameters(function: Function) -> list[str]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in named if argument.arg not in ("self", "cls")]


def has_arguments_section(function: Function) -> bool:
    return re.search(r"^Args:$", ast.get_docstring(function) or "", re.MULTILINE) is not None


def comment_lines(text: str) -> int:
    """Count lines that hold a comment, alone or after code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def shared_names(modules: list[Module]) -> list[str]:
    """Return public functions, classes and constants whose name is defined in several modules."""
    homes: Counter[str] = Counter()
    for module in modules:
        names = set()
        for node in module.tree.body:
            if isinstance(node, (*Function.__args__, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
        homes.update(name for name in names if not name.startswith("_"))
    return sorted(name for name, count in homes.items() if count > 1)


class Trace:
    """The files of a package that ran, and the largest number of its calls on the stack.

    What an import runs is left out: it is no work on a row.
    """

    def __init__(self, package: Path) -> None:
        self.package, self.files, self.deepest = f"{package}/", set[str](), list[str]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and self._is_ours(frame):
            calls = self._calls(frame)
            self.deepest = max(self.deepest, calls, key=len)
            self.files |= {frame.f_code.co_filename} if calls else set()

    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.package)

    def _calls(self, innermost: FrameType) -> list[str]:
        calls = []
        frame: FrameType | None = innermost
        while frame is not None:
            name = frame.f_code.co_name
            if self._is_ours(frame):
                if name == "<module>":
                    return []
                if name not in COMPREHENSIONS:
                    file = frame.f_code.co_filename.removeprefix(self.package)
                    calls.append(f"{file} {name}")
            frame = frame.f_back
        return calls


def write_rows(path: Path) -> None:
    draw = random.Random(0)
    rows = [
        f"{draw.gauss(0, 1):.3f},{draw.choice('ab')},{draw.choice('xyz')},{draw.choice('01')}"
        for _ in range(240)
    ]
    path.write_text("\n".join(["amount,group,client,label", *rows, ""]), encoding="utf-8")


def trace_run() -> Trace:
    """Run `fedfb run` on a small CSV in this process, and return what ran of fedfb."""
    import fedfb
    from fedfb.cli import main

    trace = Trace(Path(fedfb.__file__).parent)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        write_rows(rows)
        words = "--label label --positive 1 --sensitive group --client-column client --rounds 1"
        command, sys.argv = sys.argv, ["fedfb", "run", "--data", str(rows), *words.split()]
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                main()
        except SystemExit as ending:
            if ending.code:
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            sys.argv = command
    if "accuracy" not in printed.getvalue().lower():
        raise RuntimeError(f"the run printed no accuracy:\n{printed.getvalue()}")
    return trace


def measure(source: Path) -> list[Metric]:
    """Return the rows of the table that come from reading the files below `source`."""
    modules = read_modules(source)
    names = [name for module in modules for name in bindings(module.tree)]
    vague = sum(name in VAGUE for name in names)
    functions = [function for module in modules for function in functions_of(module.tree)]
    documented = [function for function in functions if ast.get_docstring(function)]
    public = [f for f in documented if not f.name.startswith("_") and len(parameters(f)) > 1]
    lines = sum(len(module.text.splitlines()) for module in modules)
    comments = sum(comment_lines(module.text) for module in modules)
    subscripts = string_subscripts(modules, ("report", "experiments"))
    return [
        Metric("Python files", f"{len(modules)}", "about 200"),
        Metric("modules with one importer", f"{len(single_importers(modules))}", "under 30"),
        Metric("string subscripts in report, experiments", f"{subscripts:,}", "under 100"),
        Metric("bindings with vague names", _share(vague, names), "under 1%"),
        Metric("docstrings with Args:", _share_with_arguments(documented), "where needed"),
        Metric("  of public ones, 2+ parameters", _share_with_arguments(public), "over 50%"),
        Metric("lines with a comment", f"{comments / max(lines, 1):.1%}", "3 to 5%"),
        Metric("public names in several modules", f"{len(shared_names(modules))}", "under 40"),
    ]


def _share_with_arguments(functions: list[Function]) -> str:
    return _share(sum(map(has_arguments_section, functions)), functions)


def _share(count: int, everything: list[object] | list[str] | list[Function]) -> str:
    return f"{count / max(len(everything), 1):.1%} ({count:,} of {len(everything):,})"


def format_table(metrics: list[Metric]) -> str:
    rows = [Metric("", "fedfb now", "aim"), *metrics]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def main() -> None:
    trace = trace_run()
    path = f"{len(trace.files)} / {len(trace.deepest)}"
    print(format_table([*measure(SOURCE), Metric("CSV to number: files / depth", path, "45 / 15")]))
    if "--list" in sys.argv:
        modules = read_modules(SOURCE)
        print("\nWith one importer:", *single_importers(modules), sep="\n  ")
        print("\nIn several modules:", *shared_names(modules), sep="\n  ")
        print("\nThe deepest call of a run:", *reversed(trace.deepest), sep="\n  ")


if __name__ == "__main__":
    main()
