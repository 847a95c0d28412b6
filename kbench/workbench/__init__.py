"""What the terminal and the notebook share and neither owns: sessions, inspector, summaries."""
