"""Stands for a model that nothing here needs."""


class Net:
    pass
