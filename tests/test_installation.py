"""What is imported is declared, and what `make` installs serves every command of the README."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fedfb
from fedfb.errors import ConfigError
from fedfb.extras import EXTRAS, install_command, refuse_without

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ALIASES = {"flower": "study"}
"""Earlier names of extras."""
OPTIONAL = {
    extra: PROJECT["optional-dependencies"][ALIASES.get(extra, extra)]
    for extra in PROJECT["optional-dependencies"]
}
ENTRIES = ("fedfb", "fedfb.__main__", "fedfb.cli.app")
TOOLS = ("dev", "docs")
"""Extras for those who work on fedfb, not for those who use it."""


def names(requirements):
    return {canonicalize_name(Requirement(text).name) for text in requirements}


CORE = names(PROJECT["dependencies"])


def distribution(package):
    return canonicalize_name(packages_distributions().get(package, [package])[0])


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    # `from package import module` may import a module of that name.
    return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]


def when_loaded(tree):
    """Yield the imports that run when a module is loaded: not those in functions or for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from when_loaded(ast.Module([other], []))
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from when_loaded(node)


@cache
def trees():
    return {module_of(path): ast.parse(path.read_bytes()) for path in SOURCE.rglob("*.py")}


@cache
def all_imports():
    """Return what each module imports, anywhere in its file."""
    return {
        module: {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imported_by(node)
        }
        for module, tree in trees().items()
    }


@cache
def first_imports():
    """Return what each module imports when it is loaded."""
    return {
        module: {name for node in when_loaded(tree) for name in imported_by(node)}
        for module, tree in trees().items()
    }


def others(imports):
    """Return the packages of others among imported modules."""
    tops = {name.partition(".")[0] for name in imports}
    return tops - {"fedfb"} - set(sys.stdlib_module_names)


def loaded_with(module):
    """Return what of fedfb is loaded with a module, packages around it included."""
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in trees() and name not in seen:
            seen.add(name)
            waiting += [*first_imports()[name], name.rpartition(".")[0]]
    return seen


def test_no_import_is_relative():
    """The other tests read names as they are written."""
    assert not [
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


@pytest.mark.slow
def test_every_package_that_is_imported_is_declared():
    declared = CORE.union(*(names(OPTIONAL[extra]) for extra in OPTIONAL))
    imported = {name for imports in all_imports().values() for name in others(imports)}
    assert imported >= {"numpy", "onnx", "grpc"}  # the walk sees what is there
    assert {name for name in imported if distribution(name) not in declared} == set()


def test_what_the_command_line_loads_at_once_is_declared_in_the_core():
    loaded = set().union(*(loaded_with(entry) for entry in ENTRIES))
    needed = {name for module in loaded for name in others(first_imports()[module])}
    assert "typer" in needed
    assert {name for name in needed if distribution(name) not in CORE} <= {"jaxtyping"}


@pytest.mark.slow
def test_an_extra_declares_what_its_part_of_the_package_imports():
    of_part = {"study": "study", "secure": "privacy", "privacy": "privacy", "export": "export"}
    for part, extra in of_part.items():
        modules = [name for name in trees() if name.startswith(f"fedfb.{part}.")]
        imported = {name for module in modules for name in others(all_imports()[module])}
        declared = CORE | names(OPTIONAL[extra])
        assert {name for name in imported if distribution(name) not in declared} == set(), part


@pytest.mark.slow
def test_the_extras_that_messages_name_are_those_declared():
    assert set(EXTRAS) == set(OPTIONAL) - {*TOOLS, "all"}
    for extra, packages in EXTRAS.items():
        assert {distribution(name) for name in packages} == names(OPTIONAL[extra]), extra


def test_all_is_everything_but_torch():
    [itself] = map(Requirement, OPTIONAL["all"])
    assert itself.name == "fedfb"
    assert itself.extras == set(EXTRAS) - {"torch", *ALIASES}


def test_an_earlier_name_of_an_extra_brings_the_same_packages():
    for earlier, extra in ALIASES.items():
        assert PROJECT["optional-dependencies"][earlier] == [f"fedfb[{extra}]"]


def pins(file):
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    found = {}
    for line in re.findall(r"^[a-z].*?(?= \\$)", text, flags=re.MULTILINE):
        pin = Requirement(line)
        found.setdefault(canonicalize_name(pin.name), []).append(next(iter(pin.specifier)).version)
    return found


@pytest.mark.parametrize("file", ["run.txt", "dev.txt"])
def test_the_pins_hold_all_that_the_commands_need(file):
    extras = set(EXTRAS) - {"torch"} if file == "run.txt" else set(OPTIONAL) - {"torch"}
    pinned = pins(file)
    wanted = [
        *PROJECT["dependencies"],
        *(text for one in extras - {"all"} for text in OPTIONAL[one]),
    ]
    for requirement in map(Requirement, wanted):
        versions = pinned.get(canonicalize_name(requirement.name), [])
        assert versions, f"{file} lacks {requirement.name}: make lock"
        assert all(requirement.specifier.contains(version) for version in versions)


def test_nothing_that_is_pinned_says_where_it_comes_from_and_torch_is_not_among_it():
    for file in ("pip.txt", "run.txt", "dev.txt", "pip.in", "constraints.in", "build.in"):
        text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
        assert "://" not in text, file
        assert "index-url" not in text, file
        assert not re.search(r"^torch\b", text, flags=re.MULTILINE), file


def test_a_pinned_pip_is_installed_before_anything_else_by_hash(tmp_path):
    """That of Python 3.11 takes the newest release of name[extra], and refuses it as unpinned."""
    new = tmp_path / "new"
    command = ["make", "--dry-run", f"VENV={new}", f"{new}/.dev"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    installed = re.findall(r"pip install .*--require-hashes -r requirements/(\S+)", said.stdout)
    assert installed == ["pip.txt", "run.txt", "dev.txt"]
    assert [*pins("pip.txt")] == ["pip"]


def test_nothing_beside_the_makefile_asks_for_hashes():
    """What else installs, installs without: the wheels, the public workflow, the measurements."""
    places = [ROOT / "Makefile", *(ROOT / ".ci").iterdir(), *(ROOT / ".github").rglob("*.yml")]
    places += [ROOT / "pyproject.toml", *(ROOT / "benchmarks").glob("*.txt")]
    asking = [p.name for p in places if "require-hashes" in p.read_text(encoding="utf-8")]
    assert asking == ["Makefile"]


def test_the_version_stands_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    for file in ("pyproject.toml", "setup.py", "docs/conf.py", "CITATION.cff"):
        assert fedfb.__version__ not in (ROOT / file).read_text(encoding="utf-8"), file


def test_an_extra_is_named_in_one_place_only():
    places = [
        path.name
        for path in SOURCE.rglob("*.py")
        if "pip install '" in path.read_text(encoding="utf-8")
    ]
    assert places == ["extras.py"]


def test_the_message_names_this_python_and_the_way_of_a_clone(monkeypatch):
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refused:
        refuse_without("privacy", "--secure", "cryptography", hint="Leave it out.")
    said = str(refused.value)
    assert "--secure needs cryptography, which is not installed" in said
    assert f"{sys.executable} -m pip install 'fedfb[privacy]'" in said
    assert "in a clone of fedfb, pip install '.[privacy]'" in said
    assert said.endswith("Leave it out.")
    assert install_command("privacy") in said


WITHOUT_EXTRAS = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
sys.argv = ["fedfb", *{arguments!r}]
from fedfb.cli import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("study key north", "study"),
        (
            "study init new --like rows.csv --label y --positive 1 --sensitive s --clients a,b,c",
            "study",
        ),
        ("study serve study.toml", "study"),
        ("study join study.toml --data rows.csv", "study"),
        ("run --secure", "privacy"),
        ("run --privacy-epsilon 1", "privacy"),
        ("run --model nets:build", "torch"),
        ("compare --plot points.png", "report"),
    ],
)
def test_a_command_without_its_extra_says_how_to_get_it(arguments, extra, tmp_path):
    (tmp_path / "rows.csv").write_text("x,s,y\n1,a,1\n2,b,0\n")
    (tmp_path / "nets.py").write_text("def build(inputs): ...\n")
    hidden = sorted({name for packages in EXTRAS.values() for name in packages})
    script = WITHOUT_EXTRAS.format(hidden=hidden, arguments=arguments.split())
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (2, ""), said.stderr
    assert said.stderr.startswith("fedfb: ")
    assert f"pip install 'fedfb[{extra}]'" in said.stderr
