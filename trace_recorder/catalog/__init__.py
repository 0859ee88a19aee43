"""Many runs: the facts of each, a language to ask for some of them, and an index that answers without reading them."""
