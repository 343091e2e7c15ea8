"""The programs of ``benchmarks.programs``: the public report that each is after, and
the part of an epoch to blame."""

from dataclasses import dataclass

from nws_sweep.records import Part

_GITHUB = "https://github.com/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program that trains slowly for a known reason.

    Attributes:
        name: Of its module.
        report: Path on GitHub of the public report.
        about: The planted cause, in a few words.
        part: Of the epoch, in which the cause shows.
        times_all: Whether the program's stopwatch sees every part, and not only the
            planted one.
    """

    name: str
    report: str
    about: str
    part: Part
    times_all: bool = True

    @property
    def address(self) -> str:
        """The address of the report."""
        return _GITHUB + self.report


CASES = (
    Case(
        name="weighted_draws", report="pytorch/pytorch/issues/32221", part=Part.SAMPLER,
        about="a weighted sampler draws without replacement",
    ),
    Case(
        name="long_permutation", report="pytorch/pytorch/issues/50689", part=Part.SAMPLER,
        about="a list of ten million indices for 200 batches",
    ),
    Case(
        name="many_tensors", report="roboflow/rf-detr/pull/1399", part=Part.MAIN,
        about="640 small tensors a batch",
    ),
    Case(
        name="single_rows", report="Lightning-AI/pytorch-lightning/issues/17410", part=Part.MAIN,
        about="rows in memory, one a batch, with workers",
    ),
    Case(
        name="remade_loader", report="kohya-ss/sd-scripts/pull/120", part=Part.STARTING,
        about="a DataLoader made in each epoch",
    ),
    Case(
        name="spawned_imports", report="pytorch/pytorch/issues/103117", part=Part.STARTING,
        about="workers spawned for twenty batches",
    ),
    Case(
        name="fresh_iterators", report="SakanaAI/continuous-thought-machines/pull/19", part=Part.STARTING,
        about="a new iterator for each batch",
    ),
    Case(
        name="validation_alone", report="mlcommons/algorithmic-efficiency/issues/638", part=Part.OTHERS,
        about="a validation without workers",
    ),
    Case(
        name="zipped_loaders", report="libffcv/ffcv/issues/285", part=Part.MAKING,
        about="two DataLoaders in a zip, one too slow",
    ),
    Case(
        name="uneven_shards", report="webdataset/webdataset/issues/65", part=Part.MAKING,
        about="most samples in one shard",
    ),
    Case(
        name="whole_chunks", report="openclimatefix-archives/nowcasting_dataset/issues/57", part=Part.MAKING,
        about="a whole chunk decompressed for each row",
    ),
    Case(
        name="listed_arrays", report="pytorch/pytorch/issues/57467", part=Part.MAKING,
        about="tensors made from lists, without workers",
    ),
    Case(
        name="late_batches", report="pytorch/pytorch/issues/105203", part=Part.MAKING,
        about="batches wait for the turn of a late one",
    ),
    Case(
        name="shared_reader", report="Lightning-AI/pytorch-lightning/issues/19391", part=Part.MAKING,
        about="one reader for all workers",
    ),
    Case(
        name="saves_between_epochs", report="Lightning-AI/pytorch-lightning/issues/10389", part=Part.UNSEEN,
        about="a checkpoint after each epoch",
    ),
    Case(
        name="metrics_in_step", report="facebookresearch/detectron2/issues/2993", part=Part.STEP,
        about="metrics written in each step",
    ),
    Case(
        name="background_thread", report="IgorSusmelj/pytorch-styleguide/issues/5", part=Part.MAKING, times_all=False,
        about="a thread takes batches ahead of training",
    ),
)  # fmt: skip
QUICK = ("remade_loader", "validation_alone")
