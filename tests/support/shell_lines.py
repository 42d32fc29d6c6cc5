"""Random shell lines that do nothing but call recording stubs, and bash to run them with."""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

MARKS = tuple(f"m{number}" for number in range(6))
_REAL = ("bash", "sh", "env", "nice", "nohup", "timeout", "xargs", "cat", "setsid", "stdbuf")
_NOISE = [
    *"\"'\\$`(){}[]<>|&;#!~*? \t\n=-,m01",
    *("$(", "${", "<<E\n", "\nE\n", "&&", "||", "<(", "((", "))", "[[", "]]", "if ", "then "),
    *("fi", "do ", "done", "case ", "esac", "\\\n", "$'", '$"', "${v:-", "eval ", "function "),
    *("time ", "! ", "\nfi\n", "m0 ", ";;", "in ", "<<<", ">x ", "2>&1 ", "{a,", "`m1`"),
]

_SHAPES = r"""
@1; @2
@1 && @2
@1 || @2
@1 | @2
@1 |& @2
(@1)
{ @1; }
! @1
time @1
if @1; then @2; fi
if false; then @1; else @2; fi
while false; do @1; done; @2
until @1; do break; done
for v in m1 m2; do @1; done
select v in a; do @1; done <<< x
echo $(@1)
echo "${u:-$(@1)}"
w=$(@1); @2
f() { @1; }; f
f() (@1); @2; f m3
function g { @1⏎}⏎g
g() { $1 x; }; g @m; @1
case a in b) @1;; *) @2;; esac
[[ a == a && -n b ]] && @1
[ a ] && @1 || @2
((1+1)) && @1
bash -c '@q'
eval '@q'
bash <<< '@q'
bash <<'E'⏎@1⏎E⏎@2
cat <<E⏎$(@1)⏎E⏎@2
echo '@q' | bash
. <(echo '@q')
cat <(@1)
v=@m; @1
v=@m⏎@1
v="@m s"; $v
v=@m eval '$v c'; @1
if @1⏎then v=@m⏎else v=@m; fi; $v r
set -- @m x; "$@"; @1
a=(@m y); @1
trap '@q' EXIT; @2
@1 & wait; @2
echo a b | xargs @m
env k=1 @m a
nice -n 5 timeout 5 @m b; @1
command @m; @1
exec @m
sh -c '@m a'
cd .; @1
@1 # @2
@1 \⏎&& @2
@1⏎⏎@2
f() { local v=@m; @1; }; f; $v t
f() { v=@m; @1; }; f; $v t
i=1; ((i++)); @m $i; @1
((v=1)); @1
sh -c '((@m))'
sh -c '[[ a || @m ]]'
sh -c 'echo a; @q'
echo rm > x; $(<x) b; @1
i=3; @m $((i=4)) $i
export v=@m; @1
declare v=@m; @1
read v <<< @m; @1
unset v; @1
v=@m; f() { $v; }; v=@m; f
v+=x; @1
printf '%s\n' @m | bash
echo '@m "$@"' | bash -s a b
{ echo @m; echo @m c; } | sh
"""
SHAPES = tuple(shape.replace("⏎", "\n") for shape in _SHAPES.splitlines() if shape)
"""`@1` and `@2` are lines, `@q` is the first for single quotes, `@m` a mark."""


class Lines:
    """Makes lines: every program in them is a mark, however it is written or wrapped."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def mark(self) -> str:
        return self.random.choice(MARKS)

    def name(self) -> str:
        """The word of a program."""
        mark = self.mark()
        rest = mark[1:]
        return self.pick(
            mark, mark, mark, f"m''{rest}", f'"m"{rest}', f"\\{mark}", f"$'\\x6d{rest}'",
            f"{{{mark},a}}", f"m\\\n{rest}", f"$(echo {mark})", f"`echo {mark}`", "$v", '"$v"',
            "${v}", "${v:-m0}", '"${a[@]}"', f"'{mark}'", f"$(printf %s {mark})", f"{mark}$e",
            f"${{u}}{mark}", f"{mark}${{IFS}}b",
        )  # fmt: skip

    def word(self) -> str:
        return self.pick(
            "a", "-x", '"b c"', "'d  e'", "$v", '"$v"', "{p,q}", "{1..3}", "$((1 + 2))", "x\\ y",
            "''", "$(echo z w)", '"$(echo z w)"', "a{b,c}d", "$'t\\tu'", "${w}", "~", "a=b", "#c",
            "c#", '"`echo q`"', "{x}", "a,b", "$", "\\$v", '"\\"$v"', "e{,f}", "[", "]", "!", "}",
            "{p},q}", "{{a,b},c}", "a{b}{c,d}", "{},a}", "{a,b", "{3..1}", "{a..c}x", "{,}",
            "x{a,{b,c}}y",
        )  # fmt: skip

    def simple(self) -> str:
        before = self.pick("", "", "", "k=1 ", "v2=m3 ")
        words = " ".join(self.word() for _ in range(self.random.randrange(3)))
        after = self.pick("", "", "", " >o", " 2>&1", " <<<x", " 2>o >>p")
        return f"{before}{self.name()} {words}{after}".rstrip(" ")

    def line(self, depth: int = 3) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.simple()
        return self.shaped(self.random.choice(SHAPES), self.line(depth - 1), self.line(depth - 1))

    def shaped(self, shape: str, one: str, two: str) -> str:
        pieces = {"@1": one, "@2": two, "@q": one.replace("'", "'\\''"), "@m": self.mark()}
        return re.sub("@[12qm]", lambda found: pieces[found.group()], shape)

    def whole(self) -> str:
        start = f"v={self.mark()}; a=({self.mark()} k); w='y z'; u=; e=\n"
        return start + self.line(self.random.randrange(1, 4))

    def damaged(self) -> str:
        text = self.whole()
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(text))
            if self.random.random() < 0.4:
                text = text[:at] + text[at + self.random.randrange(1, 3) :]
            else:
                text = text[:at] + self.random.choice(_NOISE) + text[at:]
        return text


class Recorder:
    """Runs lines under bash where the marks write down that they were run."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.programs = folder / "programs"
        self.place = folder / "place"
        self.programs.mkdir()
        for mark in MARKS:
            stub = self.programs / mark
            stub.write_text(
                f"#!{shutil.which('bash')}\n"
                f"printf '%s\\0' {mark} \"$@\" $'\\1' >> {shlex.quote(str(self.log))}\n"
            )
            stub.chmod(0o755)
        for name in _REAL:
            real = shutil.which(name)
            assert real is not None
            (self.programs / name).symlink_to(real)

    def run(self, text: str) -> list[list[str]]:
        """The marks that ran, each with its arguments."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        self.log.write_bytes(b"")
        process = subprocess.Popen(
            ["bash", "--norc", "-c", text], cwd=self.place, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"PATH": str(self.programs), "HOME": str(self.place), "FUNCNEST": "20"},
        )  # fmt: skip
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        records = self.log.read_bytes().split(b"\x01\0")[:-1]
        return [record.decode(errors="replace").split("\0")[:-1] for record in records]
