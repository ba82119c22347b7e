"""python -m hone: the program, with the torch of this Python."""
import sys

from hone.launcher import main

sys.exit(main())
