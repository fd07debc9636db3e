"""One run on one or many processes, as torchrun starts them."""

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vnt.processes import sum_over_processes


@dataclass(frozen=True)
class Processes:
    """One process among those of the run.

    Attributes:
        rank: its number; process 0 writes and talks.
        count: how many there are.
        device: where it computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this one writes and talks."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over all processes."""
        if self.count == 1:
            return model
        return nn.parallel.DistributedDataParallel(model)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over all processes."""
        return sum_over_processes(x) / self.count if self.count > 1 else x

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            dist.barrier()


@contextmanager
def processes(device: str = "auto") -> Generator[Processes]:
    """Join the processes that torchrun started, or be the only one."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    where = choose_device(device)
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(where)
    if count == 1:
        yield Processes(0, 1, where)
        return
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    try:
        yield Processes(rank, count, where)
        gc.collect()  # what still holds the group would end it later, while its threads wait for the interpreter
        dist.barrier()  # leave together: a connection that closes under another process can abort it
    finally:
        # A process that fails must not wait for the others to say goodbye: torchrun ends them.
        dist.destroy_process_group()


def choose_device(name: str) -> torch.device:
    """A device by name; "auto" is the first GPU, or the CPU."""
    if name != "auto":
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}") from error
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}")
        if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
            raise ValueError(f"device {name!r} was asked for, torch sees {torch.cuda.device_count()} GPUs here")
        return device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
