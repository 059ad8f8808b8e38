"""Encode an archive of recordings, index its segments and cluster them."""

import settings as configuration
import torch
from audio import Archive
from batching import Batches
from clusters import SphericalMeans
from encoder import Encoder
from features import Collator
from index import FlatIndex, neighbours, precision_of
from report import Report
from segments import Pool


def encode(archive, encoder, settings, report, device):
    """The segments of all recordings and their embeddings."""
    collate = Collator(archive, settings, device)
    pool = Pool(archive, settings.segments)
    for numbers in Batches(collate.places, settings.batching):
        with report.stage("features"):
            features, lengths = collate(numbers)
        with report.stage("encoder"):
            encoded = encoder(features, lengths)
        with report.stage("pooling"):
            pool.add(numbers, encoded)
    return pool.finish()


@torch.inference_mode()
def run(case, device):
    """Segments, embeddings, neighbours, precision and clusters of the recordings of a case."""
    settings = configuration.read()
    report = Report(settings.report)
    archive = Archive(case, settings.audio, device)
    with report.stage("model"):
        encoder = Encoder(case, settings.encoder, device)
    segments, vectors = encode(archive, encoder, settings, report, device)
    index = FlatIndex(vectors, settings.index)
    keywords = torch.tensor([segment.keyword for segment in segments]).to(device)
    with report.stage("neighbours"):
        numbers, cosines = neighbours(index)
    precision = precision_of(numbers, keywords)
    first = [int(share * len(index)) for share in case["first"]]
    with report.stage("clusters"):
        clusters = SphericalMeans(index, first, settings.clusters).fit()
    purity = clusters.purity(keywords, max(case["keywords"]) + 1)
    report.summary(archive, segments, purity, precision)
    return {
        "segments": [(segment.clip, segment.begin, segment.end) for segment in segments],
        "embeddings": vectors,
        "neighbours": numbers,
        "cosines": cosines,
        "precision": float(precision.mean()),
        "labels": clusters.labels,
        "centres": clusters.centres,
        "tightness": float(clusters.tightness()),
        "purity": float(purity),
    }
