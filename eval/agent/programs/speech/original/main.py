"""Encode an archive of recordings, index its segments and cluster them."""

import settings as configuration
from audio import Archive
from batching import Batches
from clusters import SphericalMeans
from encoder import Encoder
from features import Collator
from index import FlatIndex, neighbours, precision_of
from report import Report
from segments import Pool


def encode(archive, encoder, settings, report):
    """The segments of all recordings and their embeddings."""
    collate = Collator(archive, settings)
    pool = Pool(archive, settings.segments, encoder.width)
    for numbers in Batches(archive, settings.batching):
        with report.stage("features"):
            features, mask = collate(numbers)
        with report.stage("encoder"):
            encoded = encoder(features, mask)
        with report.stage("pooling"):
            pool.add(numbers, encoded)
        report.note_focus(numbers, encoded.focus())
    return pool.finish()


def run(case, device):
    """Segments, embeddings, neighbours, precision and clusters of the recordings of a case."""
    settings = configuration.read()
    report = Report(settings.report)
    archive = Archive(case, settings.audio)
    with report.stage("model"):
        encoder = Encoder(case, settings.encoder, device)
    segments, vectors = encode(archive, encoder, settings, report)
    index = FlatIndex(vectors, settings.index, device)
    with report.stage("neighbours"):
        numbers, cosines = neighbours(index)
    precision = precision_of(numbers, segments)
    first = [int(share * len(index)) for share in case["first"]]
    with report.stage("clusters"):
        clusters = SphericalMeans(index, first, settings.clusters).fit()
    purity = clusters.purity([segment.keyword for segment in segments])
    report.summary(archive, segments, purity, precision)
    return {
        "segments": [(segment.clip, segment.begin, segment.end) for segment in segments],
        "embeddings": vectors,
        "neighbours": numbers,
        "cosines": cosines,
        "precision": float(precision.mean()),
        "labels": clusters.labels,
        "centres": clusters.centres,
        "tightness": clusters.tightness(),
        "purity": purity,
    }
