"""Shared by the check_hone_*.py scripts: their command line, and a dump of hone's logits against a model's."""
import argparse
import sys

from safetensors import safe_open


def parse(description, positional, optional=()):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in positional:
        parser.add_argument(name)
    for name in optional:
        parser.add_argument(name)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    return parser.parse_args()


def compare_dump(forward, dump, tolerance, quiet=False):
    """The worst of max|hone - reference| / max|reference| over the dump's sequences; NaN counts as infinite."""
    worst, n = 0.0, 0
    with safe_open(str(dump), "pt") as file:
        names = set(file.keys())
        while f"ids_{n}" in names:
            ids, mine = file.get_tensor(f"ids_{n}").long(), file.get_tensor(f"logits_{n}").float()
            reference = forward(ids)
            if mine.shape != reference.shape:
                print(f"{dump}: logits_{n} is {list(mine.shape)}, the reference's {list(reference.shape)}")
                sys.exit(2)
            off = ((mine - reference).abs().max() / reference.abs().max()).item()
            off = off if off == off else float("inf")
            cosine = (mine.double() * reference.double()).sum() / (mine.double().norm() * reference.double().norm())
            if not quiet:
                print(f"sequence {n} [{len(ids)} tokens]: off {off:.2e} relative, {100 * off / tolerance:.1f} % of the "
                      f"tolerance, cosine {cosine.item():.9f}{'' if off <= tolerance else '  FAILED'}")
            worst, n = max(worst, off), n + 1
    if n == 0:
        print(f"{dump}: no ids_0; it must hold ids_n [T] i64 and logits_n [T,V] f32")
        sys.exit(2)
    return worst
