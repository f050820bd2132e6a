"""``python -m sharelag``: the same as the command, with the interpreter of one's choice."""

from sharelag.cli import main

if __name__ == "__main__":
    main()
