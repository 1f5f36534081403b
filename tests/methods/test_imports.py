import subprocess
import sys


def test_importing_the_sparse_methods_is_light():
    """`xmcbench ls` imports every method: none may bring its engine along."""
    heavy = ["scipy", "sklearn", "torch", "pecos", "bm25s", "sparse_dot_topn", "pyarrow", "Stemmer"]
    code = (
        "import sys, xmcbench.methods.tfidf, xmcbench.methods.bm25, xmcbench.methods.xr_linear;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
