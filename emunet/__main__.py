"""``python -m emunet`` is the command ``emunet``."""

from emunet.cli import main

if __name__ == "__main__":
    main()
