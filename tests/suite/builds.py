"""The builds of the stages, and the environments in which their programs run."""
import os
from pathlib import Path

from tools import ROOT, Build, call

# All tests, with the emulator as the device `cuda`. The library is compiled at -O1: with more optimization its kernels take
# three minutes to compile, and the tests run for seconds only. The stage `optimized` tests the code that users run. g++ collects
# no garbage until it uses 1 GB, which saves a tenth of the time of a unit of tests.
SIM = Build("sim", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 --param=ggc-min-heapsize=1000000", "-DTINYTORCH_WITH_CUDA=SIM",
            "-DTINYTORCH_FUZZ=OFF", "-DTINYTORCH_TESTS=")
OPTIMIZED = Build("optimized", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_WITH_CUDA=OFF", "-DTINYTORCH_FUZZ=OFF",
                  "-DTINYTORCH_TESTS=")
# The second compiler and the sanitizers share this build. A test is then compiled twice in all, not three times.
CLANG = Build("clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_FUZZ=ON",
              "-DTINYTORCH_SANITIZE=address,undefined", "-DTINYTORCH_TESTS=")

# All kernels, compiled for the oldest and for the newest architecture; no GPU is needed. The build for the oldest one is not
# optimized, which takes a third of the time. -Werror makes a warning an error, so that the next run reports it again.
CUDA = {architecture: Build(f"cuda_{architecture}", "-DTINYTORCH_WITH_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release",
                            f"-DTINYTORCH_CUDA_ARCHITECTURES={architecture}", "-DTINYTORCH_FUZZ=OFF",
                            f"-DCMAKE_CUDA_FLAGS=-Werror=all-warnings {more}".strip())
        for architecture, more in (("75", "-Xcicc=-O0 -Xptxas=-O0"), ("90a", ""))}


def data_folder():
    """The folder of real data, or None. The data is optional and never downloaded; tests that need it are skipped without it."""
    folder = Path(os.environ.get("TINYTORCH_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def commit():
    """The hash of the commit. It seeds every random choice of the suite: runs of one commit test the same sample, and the next
    commit tests another one."""
    return call(["git", "rev-parse", "HEAD"], 60).text.strip()


def test_environment(**more):
    env = dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=1:abort_on_error=0",
               LSAN_OPTIONS=f"suppressions={ROOT}/tests/support/leaks.supp:print_suppressions=0",
               UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    env.update(more)
    return env


CCACHE = "/usr/lib/ccache"  # Debian's folder of links to ccache that have the names of compilers


def cached_environment(base=ROOT, **more):
    """An environment in which compilers use ccache, so that an object compiled before, in this checkout or in another one, is
    not compiled again. Messages have absolute paths. Paths below `base` are hashed relative to the working folder, so "/" also
    serves copies of the project in folders of other names. The cache belongs to the user and outlives a checkout."""
    env = test_environment(CCACHE_BASEDIR=str(base), CCACHE_NOHASHDIR="1", CCACHE_ABSSTDERR="1",
                           CCACHE_PATH=os.environ.get("CCACHE_PATH", "/usr/bin:/usr/local/bin"),
                           CCACHE_DEPEND="1",  # the compiler lists the included files, so the preprocessor does not run twice
                           CCACHE_SLOPPINESS="pch_defines,time_macros,include_file_mtime,include_file_ctime", **more)
    return dict(env, PATH=f"{CCACHE}:{env['PATH']}") if Path(CCACHE, "g++").exists() else env
