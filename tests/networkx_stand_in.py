"""The part of NetworkX's Graph that `File.from_networkx` uses, so that the tests need no NetworkX."""


class Graph:
    """An undirected graph with attributes."""

    def __init__(self) -> None:
        self._nodes: dict[object, dict[str, object]] = {}
        self._edges: list[tuple[object, object, dict[str, object]]] = []

    def add_node(self, node: object, **data: object) -> None:
        self._nodes[node] = data

    def add_edge(self, a: object, b: object, **data: object) -> None:
        self._edges.append((a, b, data))

    def is_directed(self) -> bool:
        return False

    def nodes(self, data: bool) -> list[tuple[object, dict[str, object]]]:
        assert data
        return list(self._nodes.items())

    def edges(self, data: bool) -> list[tuple[object, object, dict[str, object]]]:
        assert data
        return self._edges
