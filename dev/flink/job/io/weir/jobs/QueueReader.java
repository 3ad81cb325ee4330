package io.weir.jobs;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.Counter;

/** Reads the lines of its splits that are due, in turn, and ends when production has ended and all of them are read. */
final class QueueReader implements SourceReader<String, QueueSplit> {
    private static final long TRUTH_EVERY_MS = 250;
    private static final long IDLE_WAIT_MS = 20;

    private final QueueSource source;
    private final Pace pace;
    private final Counter linesIn;
    /** Also read by the metric thread, through the gauge. */
    private final List<QueueSplit> splits = new CopyOnWriteArrayList<>();
    private boolean allSplitsKnown;
    private int turn;
    private long nextTruthMs;

    QueueReader(QueueSource source, SourceReaderContext context) {
        this.source = source;
        this.pace = new Pace(source.linesPerSecond);
        this.linesIn = context.metricGroup().getIOMetricGroup().getNumRecordsInCounter();
        if (source.reportsLag) {
            context.metricGroup().setPendingRecordsGauge(this::pending);
        }
    }

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<String> out) throws IOException {
        long nowMs = System.currentTimeMillis();
        boolean ended = source.load.ended(nowMs);
        if (nowMs >= nextTruthMs) {
            nextTruthMs = nowMs + TRUTH_EVERY_MS;
            writeTruth(nowMs);
        }
        for (int i = 0; i < splits.size(); i++) {
            QueueSplit split = splits.get(turn++ % splits.size());
            if (due(split, nowMs) > split.offset) {
                pace.spendOneRecord();
                linesIn.inc();
                out.collect(source.line(split.offset * source.splits + split.id));
                split.offset++;
                return InputStatus.MORE_AVAILABLE;
            }
        }
        if (ended && allSplitsKnown) {
            writeTruth(nowMs);
            writeTotals();
            return InputStatus.END_OF_INPUT;
        }
        return InputStatus.NOTHING_AVAILABLE;
    }

    private long due(QueueSplit split, long nowMs) {
        return OfferedLoad.shareOf(split.id, source.splits, source.load.produced(split.startMs, nowMs));
    }

    private long pending() {
        long nowMs = System.currentTimeMillis();
        return splits.stream().mapToLong(split -> Math.max(0, due(split, nowMs) - split.offset)).sum();
    }

    /** Exact progress of each split, for tests that must not trust metrics: {@code epochMs read due}. */
    private void writeTruth(long nowMs) throws IOException {
        if (source.truthFolder == null) {
            return;
        }
        for (QueueSplit split : splits) {
            ResultFolder.replace(
                    Path.of(source.truthFolder, split.splitId()),
                    nowMs + " " + split.offset + " " + due(split, nowMs) + "\n");
        }
    }

    private void writeTotals() throws IOException {
        if (source.resultFolder == null) {
            return;
        }
        for (QueueSplit split : splits) {
            ResultFolder.replace(
                    Path.of(source.resultFolder, split.splitId()),
                    "start_ms " + split.startMs + "\nsplits " + source.splits + "\nlines " + split.offset + "\n");
        }
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return CompletableFuture.runAsync(
                () -> {}, CompletableFuture.delayedExecutor(IDLE_WAIT_MS, TimeUnit.MILLISECONDS));
    }

    @Override
    public List<QueueSplit> snapshotState(long checkpointId) {
        return splits.stream().map(QueueSplit::copy).collect(Collectors.toList());
    }

    @Override
    public void addSplits(List<QueueSplit> added) {
        splits.addAll(added);
    }

    @Override
    public void notifyNoMoreSplits() {
        allSplitsKnown = true;
    }

    @Override
    public void close() {}
}
