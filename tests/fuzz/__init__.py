"""A campaign of random problems over the whole contract, each answer judged by code that shares nothing with ours.

``python -m tests.fuzz --minutes 10 --seed 7`` runs it; ``--case 1234`` runs that case of the seed again.
"""
