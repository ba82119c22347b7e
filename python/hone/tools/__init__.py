"""Tools that come with hone, as the option `tools` names them: hone.tools.calculator, hone.tools.python, hone.tools.sqlite;
and hone.tools.openenv(url), whose result is an environment_factory.

Standard library only, Python 3.8 or later: the program has these texts too, and gives them to its workers where hone is no Python package.
"""
from hone.tools._calculator import calculator
from hone.tools._openenv import openenv
from hone.tools._python import python
from hone.tools._sqlite import sqlite

__all__ = ["calculator", "openenv", "python", "sqlite"]
