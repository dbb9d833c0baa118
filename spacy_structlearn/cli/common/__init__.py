"""What the commands share: reading and writing files, texts and corpora; printing."""
