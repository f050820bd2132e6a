"""Who should fetch what? One function an assignor; `sharelag.whatif.assignors.registry` knows them by name."""
