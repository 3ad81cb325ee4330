package io.weir.jobs;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Hands all splits out once, when every reader is there. From then on they live in the readers' state, and Flink
 * spreads them at a rescale. Its own state is whether that has happened.
 */
final class QueueEnumerator implements SplitEnumerator<QueueSplit, Boolean> {
    private final SplitEnumeratorContext<QueueSplit> context;
    private final int splits;
    private final List<QueueSplit> returned = new ArrayList<>();
    private boolean handedOut;

    QueueEnumerator(SplitEnumeratorContext<QueueSplit> context, int splits, boolean handedOut) {
        this.context = context;
        this.splits = splits;
        this.handedOut = handedOut;
    }

    @Override
    public void start() {}

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public void addSplitsBack(List<QueueSplit> back, int subtask) {
        returned.addAll(back);
    }

    @Override
    public void addReader(int subtask) {
        for (QueueSplit split : returned) {
            context.assignSplit(split, subtask);
        }
        returned.clear();
        if (handedOut) {
            context.signalNoMoreSplits(subtask);
        } else if (context.registeredReaders().size() == context.currentParallelism()) {
            handOutAll();
        }
    }

    private void handOutAll() {
        int readers = context.currentParallelism();
        long startMs = System.currentTimeMillis();
        for (int id = 0; id < splits; id++) {
            context.assignSplit(new QueueSplit(id, startMs, 0), id % readers);
        }
        for (int reader = 0; reader < readers; reader++) {
            context.signalNoMoreSplits(reader);
        }
        handedOut = true;
    }

    @Override
    public Boolean snapshotState(long checkpointId) {
        return handedOut;
    }

    @Override
    public void close() {}

    /** One byte. */
    static final class StateSerializer implements SimpleVersionedSerializer<Boolean> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Boolean handedOut) {
            return new byte[] {(byte) (handedOut ? 1 : 0)};
        }

        @Override
        public Boolean deserialize(int version, byte[] bytes) {
            return bytes[0] == 1;
        }
    }
}
