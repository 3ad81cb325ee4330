package io.weir.jobs;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A virtual queue with a fixed number of partitions, filled by {@link OfferedLoad}. Line number {@code n} lies in
 * partition {@code n % splits}. With {@code reportsLag} it has a pendingRecords gauge, as Kafka's source has.
 */
final class QueueSource implements Source<String, QueueSplit, Boolean> {
    final OfferedLoad load;
    final int splits;
    final boolean reportsLag;
    final double linesPerSecond;
    final String truthFolder;
    final String resultFolder;
    private final int lineBytes;

    QueueSource(
            OfferedLoad load,
            int splits,
            boolean reportsLag,
            double linesPerSecond,
            int lineBytes,
            String truthFolder,
            String resultFolder) {
        this.load = load;
        this.splits = splits;
        this.reportsLag = reportsLag;
        this.linesPerSecond = linesPerSecond;
        this.lineBytes = lineBytes;
        this.truthFolder = truthFolder;
        this.resultFolder = resultFolder;
    }

    /** A line is its number, padded with dots. */
    String line(long number) {
        String start = number + " ";
        return start + ".".repeat(Math.max(0, lineBytes - start.length()));
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<String, QueueSplit> createReader(SourceReaderContext context) {
        return new QueueReader(this, context);
    }

    @Override
    public SplitEnumerator<QueueSplit, Boolean> createEnumerator(SplitEnumeratorContext<QueueSplit> context) {
        return new QueueEnumerator(context, splits, false);
    }

    @Override
    public SplitEnumerator<QueueSplit, Boolean> restoreEnumerator(
            SplitEnumeratorContext<QueueSplit> context, Boolean handedOut) {
        return new QueueEnumerator(context, splits, handedOut);
    }

    @Override
    public SimpleVersionedSerializer<QueueSplit> getSplitSerializer() {
        return new QueueSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new QueueEnumerator.StateSerializer();
    }
}
