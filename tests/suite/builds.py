"""What the stages build, and the environments in which their programs run."""
import os
from pathlib import Path

from tools import ROOT, Build, call

# The tests with the emulator as the device `cuda`. The library is at -O1: optimized, its kernels compile for three minutes,
# and tests run for seconds; the stage `optimized` runs them on the kernels that users have.
SIM = Build("sim", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DTINYTORCH_WITH_CUDA=SIM",
            "-DTINYTORCH_FUZZ=OFF", "-DTINYTORCH_TESTS=")
OPTIMIZED = Build("optimized", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_WITH_CUDA=OFF", "-DTINYTORCH_FUZZ=OFF",
                  "-DTINYTORCH_TESTS=")
# The second compiler and the sanitizers share a build: every test runs under both, and is compiled twice, not thrice.
CLANG = Build("clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_FUZZ=ON",
              "-DTINYTORCH_SANITIZE=address,undefined", "-DTINYTORCH_TESTS=")

# Every kernel for the oldest and the newest architecture; no GPU is needed. The oldest unoptimized, which takes a third of
# the time. -Werror, so that a warning is an error in the next run as well.
CUDA = {architecture: Build(f"cuda_{architecture}", "-DTINYTORCH_WITH_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release",
                            f"-DTINYTORCH_CUDA_ARCHITECTURES={architecture}", "-DTINYTORCH_FUZZ=OFF",
                            f"-DCMAKE_CUDA_FLAGS=-Werror=all-warnings {more}".strip())
        for architecture, more in (("75", "-Xcicc=-O0 -Xptxas=-O0"), ("90a", ""))}


def data_folder():
    """Real data, which is optional and never downloaded; without it the cases that need it are skipped."""
    folder = Path(os.environ.get("TINYTORCH_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def commit():
    """What every draw of the suite is made from, so that a commit always proves the same and the next one something else."""
    return call(["git", "rev-parse", "HEAD"], 60).text.strip()


def test_environment(**more):
    env = dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=1:abort_on_error=0",
               LSAN_OPTIONS=f"suppressions={ROOT}/tests/support/leaks.supp:print_suppressions=0",
               UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    env.update(more)
    return env


CCACHE = "/usr/lib/ccache"  # compilers by their own names, as Debian's package has them


def cached_environment(base=ROOT, **more):
    """A compiler answers from what it was asked before, in this checkout or in another, and says paths in full. Paths below
    `base` are taken relative to the working folder: "/" serves copies of the project in folders of other names. The cache is
    the user's own: it outlives a checkout."""
    env = test_environment(CCACHE_BASEDIR=str(base), CCACHE_NOHASHDIR="1", CCACHE_ABSSTDERR="1",
                           CCACHE_PATH=os.environ.get("CCACHE_PATH", "/usr/bin:/usr/local/bin"),
                           CCACHE_DEPEND="1",  # what a file includes is the compiler's list: no second preprocessor run
                           CCACHE_SLOPPINESS="pch_defines,time_macros,include_file_mtime,include_file_ctime", **more)
    return dict(env, PATH=f"{CCACHE}:{env['PATH']}") if Path(CCACHE, "g++").exists() else env
