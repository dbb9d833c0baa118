"""M-estimated grammars: features of tree fragments (Smith, Vail & Lafferty 2007, 4.1.2)."""
