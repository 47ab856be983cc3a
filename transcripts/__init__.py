"""Past sessions of the agents, and what is distilled from them."""
