import java.io.File;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * A whole Pravega in one process that keeps what it acknowledged: ZooKeeper, a bookie, a segment store and a controller, with
 * all their files in one folder. Killed at any moment, it goes on where it was when it is started on that folder again.
 *
 * Properties: node.folder, node.zk.port, node.bookie.port; everything else is Pravega's own.
 */
public final class SingleNode {
    private static final String HOST = "127.0.0.1";
    private static final String LEDGERS = "/weir/ledgers";

    private interface Part {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(System.getProperty("node.folder")).toAbsolutePath();
        int zkPort = Integer.getInteger("node.zk.port");
        startZooKeeper(folder, zkPort);
        ServerConfiguration bookie = bookie(folder, zkPort);
        prepareLedgers(bookie, zkPort);
        new BookieServer(bookie).start();
        inThread("segment store", () -> io.pravega.segmentstore.server.host.ServiceStarter.main(new String[0]));
        inThread("controller", () -> io.pravega.controller.server.Main.main(new String[0])).join();
    }

    /** Half a second a tick allows sessions of a second: what a killed process left there must be gone before its successor registers. */
    private static void startZooKeeper(Path folder, int port) throws Exception {
        File data = subfolder(folder, "zookeeper");
        ServerCnxnFactory network = ServerCnxnFactory.createFactory();
        network.configure(new InetSocketAddress(HOST, port), 500);
        network.startup(new ZooKeeperServer(data, data, 500));
    }

    private static ServerConfiguration bookie(Path folder, int zkPort) throws Exception {
        ServerConfiguration bookie = new ServerConfiguration();
        bookie.setAdvertisedAddress(HOST);
        bookie.setListeningInterface("lo");
        bookie.setAllowLoopback(true);
        bookie.setBookiePort(Integer.getInteger("node.bookie.port"));
        bookie.setMetadataServiceUri("zk://" + HOST + ":" + zkPort + LEDGERS);
        bookie.setZkTimeout(3000);
        bookie.setJournalDirName(subfolder(folder, "journal").toString());
        bookie.setLedgerDirNames(new String[] {subfolder(folder, "ledgers").toString()});
        // A full disk of the machine that runs the tests is not what is tested.
        bookie.setDiskUsageThreshold(0.99f);
        bookie.setDiskUsageWarnThreshold(0.98f);
        bookie.setJournalAdaptiveGroupWrites(true);
        return bookie;
    }

    private static void prepareLedgers(ServerConfiguration bookie, int zkPort) throws Exception {
        try (ZooKeeper client = new ZooKeeper(HOST + ":" + zkPort, 5000, event -> { })) {
            for (int look = 0; look < 200 && !client.getState().isConnected(); look++) {
                Thread.sleep(50);
            }
            String parent = LEDGERS.substring(0, LEDGERS.lastIndexOf('/'));
            if (client.exists(parent, false) == null) {
                client.create(parent, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
            if (client.exists(LEDGERS, false) == null) {
                BookKeeperAdmin.initNewCluster(bookie);
            }
        }
    }

    private static File subfolder(Path folder, String name) throws Exception {
        return Files.createDirectories(folder.resolve(name)).toFile();
    }

    /** A part that fails takes the process with it, rather than leaving a half that answers some questions. */
    private static Thread inThread(String name, Part part) {
        Thread thread = new Thread(() -> {
            try {
                part.run();
            } catch (Throwable failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(3);
            }
        }, name);
        thread.start();
        return thread;
    }
}
