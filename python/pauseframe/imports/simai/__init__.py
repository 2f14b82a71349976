"""SimAI's inputs (aliyun/SimAI 1.7): topology text, workload text and SimAI.conf become a folder with a scenario."""

from pauseframe.imports.simai.scenario import import_simai

__all__ = ["import_simai"]
